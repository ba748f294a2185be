// Phi-3, Phi-3.5 and Phi-4 (dense): grouped-query attention and a gated MLP whose projections are
// stored as qkv_proj and gate_up_proj. Models with long contexts have LongRoPE, Phi-4-mini rotates
// a part of each head, Phi-3-mini has a sliding window.

#include "graft/models/families/common.h"

namespace graft::models {
namespace {

constexpr HfDefaults kPhi3Defaults = {.vocab_size = 32064,
                                      .hidden_size = 3072,
                                      .intermediate_size = 8192,
                                      .num_hidden_layers = 32,
                                      .num_attention_heads = 32,
                                      .max_position_embeddings = 4096,
                                      .rms_norm_eps = 1e-5};

void read_phi3(const formats::Fields& fields, ModelConfig& config) {
  read_sizes(fields, kPhi3Defaults, config);
  read_head_dim(fields, kPhi3Defaults, config);
  config.sliding_window = fields.integer("sliding_window", 0);
  read_rope(fields, kPhi3Defaults, config);
}

constexpr std::array kPhi3Layer = {
    TensorRow{"self_attn.qkv_proj.weight", "attn_qkv.weight"},
    TensorRow{"self_attn.o_proj.weight", "attn_output.weight"},
    TensorRow{"mlp.gate_up_proj.weight", "ffn_up.weight"},
    TensorRow{"mlp.down_proj.weight", "ffn_down.weight"},
};

constexpr std::array kPhi3Fused = {
    FusedRow{"self_attn.q_proj.weight", "self_attn.qkv_proj.weight", TensorTransform::QkvQuery},
    FusedRow{"self_attn.k_proj.weight", "self_attn.qkv_proj.weight", TensorTransform::QkvKey},
    FusedRow{"self_attn.v_proj.weight", "self_attn.qkv_proj.weight", TensorTransform::QkvValue},
    FusedRow{"mlp.gate_proj.weight", "mlp.gate_up_proj.weight", TensorTransform::FirstHalf},
    FusedRow{"mlp.up_proj.weight", "mlp.gate_up_proj.weight", TensorTransform::SecondHalf},
};

// Phi-3 has the vocabulary of Llama 2; Phi-4 that of cl100k, Phi-4-mini that of o200k.
constexpr std::array kPhi3PreTokenizers = {
    formats::PreTokenizerName{"dbrx", "dbrx"},
    formats::PreTokenizerName{"gpt-4o", "gpt-4o"},
};

}  // namespace

extern const Family kPhi3 = {
    .model_types = {"phi3"},
    .hf_class = "Phi3ForCausalLM",
    .class_prefix = "Phi3",
    .gguf = {.architecture = "phi3"},
    .read_hf = read_phi3,
    .tensors = {rows::kNorms, kPhi3Layer},
    .fused = kPhi3Fused,
    .pre_tokenizers = kPhi3PreTokenizers,
    .chat = {.builtin_template = "phi3",
             .marked_template = {.token = "<|im_sep|>", .builtin_template = "phi4"}},
    .build = build_dense,
};

}  // namespace graft::models
