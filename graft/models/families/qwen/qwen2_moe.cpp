// Qwen2-MoE: Qwen2 with routed experts and one shared expert, whose output is weighted by its own
// sigmoid gate.

#include "graft/models/families/qwen/qwen.h"

namespace graft::models {
namespace {

constexpr HfDefaults kQwen2MoeDefaults = {.vocab_size = 151936,
                                          .hidden_size = 2048,
                                          .intermediate_size = 5632,
                                          .num_hidden_layers = 24,
                                          .num_attention_heads = 16,
                                          .num_key_value_heads = 16,
                                          .max_position_embeddings = 32768};

constexpr HfMoeDefaults kQwen2MoeExperts = {
    .num_experts = 60, .num_experts_per_tok = 4, .moe_intermediate_size = 1408};

void read_qwen2_moe(const formats::Fields& fields, ModelConfig& config) {
  read_qwen2_attention(fields, kQwen2MoeDefaults, config);
  if (read_moe(fields, kQwen2MoeExperts, config)) {
    MoeConfig& moe = config.moe;
    moe.shared_expert_intermediate_size = fields.integer("shared_expert_intermediate_size", 5632);
    moe.num_shared_experts = moe.shared_expert_intermediate_size > 0 ? 1 : 0;
    moe.shared_expert_gate = moe.num_shared_experts > 0;
  }
  read_rope(fields, kQwen2MoeDefaults, config);
}

constexpr std::array kSharedExpert = {
    TensorRow{"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    TensorRow{"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    TensorRow{"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    TensorRow{"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
};

std::vector<plan::ModuleSpec> shared_expert(const Builder& build, std::int64_t layer) {
  const MoeConfig& moe = build.config().moe;
  const std::string name = layer_name(layer) + ".mlp.shared_expert";
  std::vector<plan::ModuleSpec> shared;
  if (moe.shared_expert_intermediate_size == 0) return shared;
  shared.push_back(build.mlp(name, moe.shared_expert_intermediate_size));
  if (moe.shared_expert_gate) {
    shared.push_back(build.linear(name + "_gate", build.config().hidden_size, 1));
  }
  return shared;
}

plan::Blueprint build_qwen2_moe(Builder& build) {
  const MoeNames names{.moe_class = build.class_name("SparseMoeBlock"), .router_class = "Linear"};
  return build_sparse(
      build, names, [&](std::int64_t layer) { return build.attention(layer); },
      [&](std::int64_t layer) { return shared_expert(build, layer); });
}

// clang-format off
constexpr std::array kQwen2MoeClasses = {
    plan::ClassAlias{"KQwen2MoeSparseMoeBlock",   ops::Role::Moe},
    plan::ClassAlias{"KQwen2MoeSparseMoeBlockV2", ops::Role::Moe},
    plan::ClassAlias{"KQwen2MoeAttention",        ops::Role::Attention},
    plan::ClassAlias{"KQwen2MoeRMSNorm",          ops::Role::Norm},
    plan::ClassAlias{"KQwen2MoeMLP",              ops::Role::Mlp},
    plan::ClassAlias{"KQwen2MoeModel",            ops::Role::Model},
};

constexpr std::array kQwen2MoeBases = {
    plan::ClassBase{"Qwen2MoeFlashAttention2", "Qwen2MoeAttention"},
    plan::ClassBase{"Qwen2MoeSdpaAttention",   "Qwen2MoeAttention"},
};
// clang-format on

}  // namespace

extern const Family kQwen2Moe = {
    .model_types = {"qwen2_moe"},
    .hf_class = "Qwen2MoeForCausalLM",
    .class_prefix = "Qwen2Moe",
    .gguf = {.architecture = "qwen2moe",
             .attention_bias = true,
             .shared_expert_gate = true,
             .shared = GgufTraits::Shared::Width},
    .read_hf = read_qwen2_moe,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMlp, rows::kExperts,
                rows::kRouterAndFusedExperts, kSharedExpert},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kQwenPreTokenizers,
    .chat = {.builtin_template = "chatml", .tool_calls = formats::ToolCallFormat::Hermes},
    .build = build_qwen2_moe,
    .ktransformers_classes = kQwen2MoeClasses,
    .class_bases = kQwen2MoeBases,
};

}  // namespace graft::models
