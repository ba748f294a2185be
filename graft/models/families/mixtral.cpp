// Mixtral: Mistral with eight experts instead of the MLP. Hugging Face calls the block
// block_sparse_moe and an expert's matrices w1 (gate), w2 (down) and w3 (up).

#include "graft/models/config/hf_keys.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

using formats::Fields;
using formats::GgufFields;

constexpr HfDefaults kMixtralDefaults = {.vocab_size = 32000,
                                         .hidden_size = 4096,
                                         .intermediate_size = 14336,
                                         .num_hidden_layers = 32,
                                         .num_attention_heads = 32,
                                         .num_key_value_heads = 8,
                                         .max_position_embeddings = 131072,
                                         .rms_norm_eps = 1e-5,
                                         .rope_theta = 1000000.0};

constexpr HfMoeDefaults kMixtralExperts = {
    .num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 0};

void read_mixtral(const Fields& fields, ModelConfig& config) {
  read_sizes(fields, kMixtralDefaults, config);
  read_head_dim(fields, kMixtralDefaults, config);
  config.sliding_window = fields.integer("sliding_window", 0);
  // No key: Mixtral's code always normalizes the weights of the chosen experts.
  if (read_moe(fields, kMixtralExperts, config)) config.moe.norm_topk_prob = true;
  read_rope(fields, kMixtralDefaults, config);
}

// clang-format off
constexpr std::array kExperts = {
    TensorRow{"block_sparse_moe.gate.weight",         "ffn_gate_inp.weight"},
    TensorRow{"block_sparse_moe.experts.@.w1.weight", "ffn_gate_exps.weight", TensorTransform::Expert},
    TensorRow{"block_sparse_moe.experts.@.w3.weight", "ffn_up_exps.weight",   TensorTransform::Expert},
    TensorRow{"block_sparse_moe.experts.@.w2.weight", "ffn_down_exps.weight", TensorTransform::Expert},
    TensorRow{"block_sparse_moe.experts.@.w1.weight", "ffn_gate.@.weight",    TensorTransform::Same, true},
    TensorRow{"block_sparse_moe.experts.@.w3.weight", "ffn_up.@.weight",      TensorTransform::Same, true},
    TensorRow{"block_sparse_moe.experts.@.w2.weight", "ffn_down.@.weight",    TensorTransform::Same, true},
};

constexpr std::array kMixtralFused = {
    FusedRow{"block_sparse_moe.experts.@.w1.weight", "block_sparse_moe.experts.gate_up_proj", TensorTransform::FirstHalf},
    FusedRow{"block_sparse_moe.experts.@.w3.weight", "block_sparse_moe.experts.gate_up_proj", TensorTransform::SecondHalf},
    FusedRow{"block_sparse_moe.experts.@.w2.weight", "block_sparse_moe.experts.down_proj",    TensorTransform::Expert},
};
// clang-format on

plan::Blueprint build_mixtral(Builder& build) {
  const MoeNames names{.block = "block_sparse_moe",
                       .moe_class = build.class_name("SparseMoeBlock"),
                       .router_class = "Linear"};
  return build.causal_lm([&](std::int64_t layer) {
    return build.decoder_layer(layer, build.attention(layer), build.moe(layer, names));
  });
}

// clang-format off
constexpr std::array kMixtralClasses = {
    plan::ClassAlias{"KMistralSparseMoEBlock", ops::Role::Moe},
};

constexpr std::array kMixtralBases = {
    plan::ClassBase{"MixtralFlashAttention2", "MixtralAttention"},
    plan::ClassBase{"MixtralSdpaAttention",   "MixtralAttention"},
};
// clang-format on

}  // namespace

extern const Family kMixtral = {
    .model_types = {"mixtral"},
    .hf_class = "MixtralForCausalLM",
    .class_prefix = "Mixtral",
    .gguf = {.architecture = "llama",
             .matches = [](const GgufFields& gguf) { return gguf.integer("expert_count", 0) > 0; },
             .norm_topk_prob = true,
             .experts_have_mlp_width = true},
    .read_hf = read_mixtral,
    .tensors = {rows::kNorms, rows::kPairedQueryKey, rows::kAttention, rows::kMlp, kExperts,
                rows::kRouterAndFusedExperts},
    .fused = kMixtralFused,
    .experts = {.gate_proj = "w1", .up_proj = "w3", .down_proj = "w2"},
    .renamed = {.plain = ".block_sparse_moe.", .stored = ".mlp."},
    .chat = {.builtin_template = "mistral"},
    .build = build_mixtral,
    .ktransformers_classes = kMixtralClasses,
    .class_bases = kMixtralBases,
};

}  // namespace graft::models
