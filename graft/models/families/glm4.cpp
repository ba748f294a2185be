// GLM-4 (dense, 0414): grouped-query attention with biases on q, k and v that rotates neighbouring
// elements of half of each head, a gated MLP whose gate and up projections are one tensor, and
// sandwich norms: one before and one after each block.

#include "graft/models/families/glm4.h"

namespace graft::models {
namespace {

constexpr HfDefaults kGlm4Defaults = {.vocab_size = 151552,
                                      .hidden_size = 4096,
                                      .intermediate_size = 13696,
                                      .num_hidden_layers = 40,
                                      .num_attention_heads = 32,
                                      .num_key_value_heads = 2,
                                      .head_dim = 128,
                                      .max_position_embeddings = 131072,
                                      .rms_norm_eps = 1.5625e-07,
                                      .partial_rotary_factor = 0.5};

void read_glm4(const formats::Fields& fields, ModelConfig& config) {
  read_sizes(fields, kGlm4Defaults, config);
  read_head_dim(fields, kGlm4Defaults, config);
  config.attention_bias = fields.boolean("attention_bias", true);
  read_rope(fields, kGlm4Defaults, config);
  config.rope_interleaved = true;
}

constexpr std::array kGlm4Layer = {
    TensorRow{"input_layernorm.weight", "attn_norm.weight"},
    TensorRow{"post_self_attn_layernorm.weight", "post_attention_norm.weight"},
    TensorRow{"post_attention_layernorm.weight", "ffn_norm.weight"},
    TensorRow{"post_mlp_layernorm.weight", "post_ffw_norm.weight"},
    TensorRow{"mlp.gate_up_proj.weight", "ffn_up.weight"},
    TensorRow{"mlp.down_proj.weight", "ffn_down.weight"},
};

constexpr std::array kGlm4Fused = {
    FusedRow{"mlp.gate_proj.weight", "mlp.gate_up_proj.weight", TensorTransform::FirstHalf},
    FusedRow{"mlp.up_proj.weight", "mlp.gate_up_proj.weight", TensorTransform::SecondHalf},
};

plan::Blueprint build_glm4(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    return build.sandwich_layer(layer, build.attention(layer), build.mlp(layer));
  });
}

}  // namespace

extern const Family kGlm4 = {
    .model_types = {"glm4"},
    .hf_class = "Glm4ForCausalLM",
    .class_prefix = "Glm4",
    .gguf = {.architecture = "glm4", .rope_interleaved = true, .attention_bias = true},
    .read_hf = read_glm4,
    .tensors = {kGlm4Layer, rows::kQueryKey, rows::kAttention},
    .fused = kGlm4Fused,
    .pre_tokenizers = kGlmPreTokenizers,
    .chat = {.prefix = kGlmPrefix},
    .build = build_glm4,
};

}  // namespace graft::models
