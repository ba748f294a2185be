// GLM-4.5: grouped-query attention that rotates half of each head, with biases and (in the large
// model) norms of q and k; routed and shared experts as in DeepSeek-V3. Nothing is built for its
// next-token-prediction layer.

#include "graft/models/families/glm4.h"

namespace graft::models {
namespace {

constexpr HfDefaults kGlm4MoeDefaults = {.vocab_size = 151552,
                                         .hidden_size = 4096,
                                         .intermediate_size = 10944,
                                         .num_hidden_layers = 46,
                                         .num_attention_heads = 96,
                                         .num_key_value_heads = 8,
                                         .max_position_embeddings = 131072,
                                         .rms_norm_eps = 1e-5,
                                         .partial_rotary_factor = 0.5};

constexpr HfMoeDefaults kGlm4MoeExperts = {.num_experts = 128,
                                           .num_experts_per_tok = 8,
                                           .moe_intermediate_size = 1408,
                                           .num_shared_experts = 1,
                                           .first_k_dense_replace = 1,
                                           .norm_topk_prob = true,
                                           .scoring_func = RouterScoring::Sigmoid,
                                           .topk_method = RouterMethod::NoauxTc};

void read_glm4_moe(const formats::Fields& fields, ModelConfig& config) {
  read_sizes(fields, kGlm4MoeDefaults, config);
  read_head_dim(fields, kGlm4MoeDefaults, config);
  config.attention_bias = fields.boolean("attention_bias", false);
  config.qk_norm = fields.boolean("use_qk_norm", false);
  if (read_moe(fields, kGlm4MoeExperts, config))
    read_shared_experts(fields, kGlm4MoeExperts, config);
  read_rope(fields, kGlm4MoeDefaults, config);
}

constexpr std::array kNorms = {
    TensorRow{"input_layernorm.weight", "attn_norm.weight"},
    TensorRow{"post_attention_layernorm.weight", "post_attention_norm.weight"},
};

plan::Blueprint build_glm4_moe(Builder& build) {
  const MoeNames names{.moe_class = build.class_name("MoE"),
                       .router_class = build.class_name("TopkRouter")};
  return build_sparse(
      build, names, [&](std::int64_t layer) { return build.attention(layer); },
      [&](std::int64_t layer) { return build.shared_experts(layer); });
}

// clang-format off
constexpr std::array kGlm4MoeClasses = {
    plan::ClassAlias{"KGlm4Experts",            ops::Role::Experts},
    plan::ClassAlias{"KGlm4MoeMoE",             ops::Role::Moe},
    plan::ClassAlias{"KGlm4MoeAttention",       ops::Role::Attention},
    plan::ClassAlias{"KGlm4MoeRotaryEmbedding", ops::Role::Rope},
    plan::ClassAlias{"KGlm4MoeRMSNorm",         ops::Role::Norm},
    plan::ClassAlias{"KGlm4MoeMLP",             ops::Role::Mlp},
};
// clang-format on

}  // namespace

extern const Family kGlm4Moe = {
    .model_types = {"glm4_moe"},
    .hf_class = "Glm4MoeForCausalLM",
    .class_prefix = "Glm4Moe",
    .gguf = {.architecture = "glm4moe",
             .scoring = RouterScoring::Sigmoid,
             .method = RouterMethod::NoauxTc,
             .shared = GgufTraits::Shared::Count},
    .read_hf = read_glm4_moe,
    .tensors = {kNorms, rows::kQueryKey, rows::kAttention, rows::kMlp, rows::kExperts,
                rows::kRouterAndFusedExperts, rows::kSharedExperts, rows::kNextn},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kGlmPreTokenizers,
    .chat = {.prefix = kGlmPrefix},
    .build = build_glm4_moe,
    .ktransformers_classes = kGlm4MoeClasses,
};

}  // namespace graft::models
