// Qwen3-MoE: Qwen3 with routed experts and no shared ones.

#include "graft/models/families/qwen/qwen.h"

namespace graft::models {
namespace {

constexpr HfDefaults kQwen3MoeDefaults = {.vocab_size = 151936,
                                          .hidden_size = 2048,
                                          .intermediate_size = 6144,
                                          .num_hidden_layers = 24,
                                          .num_attention_heads = 32,
                                          .num_key_value_heads = 4,
                                          .max_position_embeddings = 32768};

constexpr HfMoeDefaults kQwen3MoeExperts = {
    .num_experts = 128, .num_experts_per_tok = 8, .moe_intermediate_size = 768};

void read_qwen3_moe(const formats::Fields& fields, ModelConfig& config) {
  read_qwen3_attention(fields, kQwen3MoeDefaults, 0, config);
  if (read_moe(fields, kQwen3MoeExperts, config))
    read_shared_experts(fields, kQwen3MoeExperts, config);
  read_rope(fields, kQwen3MoeDefaults, config);
}

plan::Blueprint build_qwen3_moe(Builder& build) {
  const MoeNames names{.moe_class = build.class_name("SparseMoeBlock"), .router_class = "Linear"};
  return build_sparse(build, names, [&](std::int64_t layer) { return build.attention(layer); });
}

// clang-format off
constexpr std::array kQwen3MoeClasses = {
    plan::ClassAlias{"KQwen3MoeSparseMoeBlockV2",     ops::Role::Moe},
    plan::ClassAlias{"KQwen3MoeSparseMoeBlockW8A8",   ops::Role::Moe, plan::Platform::Npu},
    plan::ClassAlias{"KQwen3MoeAttention",            ops::Role::Attention},
    plan::ClassAlias{"KQwen3MoeAttentionW8A8A2Serve", ops::Role::Attention, plan::Platform::Npu},
    plan::ClassAlias{"KQwen3MoeAttentionIPEXLLM",     ops::Role::Attention, plan::Platform::Xpu},
    plan::ClassAlias{"KQwen3MoeRotaryEmbedding",      ops::Role::Rope},
    plan::ClassAlias{"KQwen3MoeRMSNorm",              ops::Role::Norm},
    plan::ClassAlias{"KQwen3MoeRMSNormW8A8",          ops::Role::Norm, plan::Platform::Npu},
};

constexpr std::array kQwen3MoeBases = {
    plan::ClassBase{"Qwen3MoeRotaryEmbedding", "Qwen2MoeRotaryEmbedding"},
};
// clang-format on

}  // namespace

extern const Family kQwen3Moe = {
    .model_types = {"qwen3_moe"},
    .hf_class = "Qwen3MoeForCausalLM",
    .class_prefix = "Qwen3Moe",
    // llama.cpp normalizes the experts' weights for this family regardless of the file.
    .gguf = {.architecture = "qwen3moe", .qk_norm = true, .norm_topk_prob = true},
    .read_hf = read_qwen3_moe,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMlp, rows::kExperts,
                rows::kRouterAndFusedExperts},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kQwenPreTokenizers,
    .chat = {.builtin_template = "qwen3", .tool_calls = formats::ToolCallFormat::Hermes},
    .build = build_qwen3_moe,
    .ktransformers_classes = kQwen3MoeClasses,
    .class_bases = kQwen3MoeBases,
};

}  // namespace graft::models
