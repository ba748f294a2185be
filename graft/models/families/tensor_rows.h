// Rows that pair a Hugging Face tensor with its GGUF tensor, in groups that families share. Names
// below a layer leave out "model.layers.<layer>." and "blk.<layer>."; '@' is an expert's index.

#pragma once

#include <array>
#include <string_view>

#include "graft/formats/tensor_transform.h"

namespace graft::models {

using formats::TensorTransform;

struct TensorRow {
  std::string_view hf;
  std::string_view gguf;
  TensorTransform transform = TensorTransform::Same;
  bool read_only = false;  // only old or unusual GGUF files have the name: read, never written
};

// A weight of a layer that some checkpoints store inside a larger tensor.
struct FusedRow {
  std::string_view weight;
  std::string_view stored;
  TensorTransform transform;
};

namespace rows {

// clang-format off
// Outside the layers, in every family.
inline constexpr std::array kModel = {
    TensorRow{"model.embed_tokens.weight",            "token_embd.weight"},
    TensorRow{"model.norm.weight",                    "output_norm.weight"},
    TensorRow{"lm_head.weight",                       "output.weight"},
    TensorRow{"model.hc_head.hc_fn",                  "output_hc_fn.weight"},
    TensorRow{"model.hc_head.hc_base",                "output_hc_base.weight"},
    TensorRow{"model.hc_head.hc_scale",               "output_hc_scale.weight"},
};

inline constexpr std::array kNorms = {
    TensorRow{"input_layernorm.weight",               "attn_norm.weight"},
    TensorRow{"post_attention_layernorm.weight",      "ffn_norm.weight"},
};

inline constexpr std::array kQueryKey = {
    TensorRow{"self_attn.q_proj.weight",              "attn_q.weight"},
    TensorRow{"self_attn.q_proj.bias",                "attn_q.bias"},
    TensorRow{"self_attn.k_proj.weight",              "attn_k.weight"},
    TensorRow{"self_attn.k_proj.bias",                "attn_k.bias"},
};

// For families whose GGUF files rotate neighbouring rows.
inline constexpr std::array kPairedQueryKey = {
    TensorRow{"self_attn.q_proj.weight",              "attn_q.weight",             TensorTransform::RopePairs},
    TensorRow{"self_attn.q_proj.bias",                "attn_q.bias",               TensorTransform::RopePairs},
    TensorRow{"self_attn.k_proj.weight",              "attn_k.weight",             TensorTransform::RopePairs},
    TensorRow{"self_attn.k_proj.bias",                "attn_k.bias",               TensorTransform::RopePairs},
};

inline constexpr std::array kAttention = {
    TensorRow{"self_attn.v_proj.weight",              "attn_v.weight"},
    TensorRow{"self_attn.v_proj.bias",                "attn_v.bias"},
    TensorRow{"self_attn.o_proj.weight",              "attn_output.weight"},
    TensorRow{"self_attn.o_proj.bias",                "attn_output.bias"},
    TensorRow{"self_attn.q_norm.weight",              "attn_q_norm.weight"},
    TensorRow{"self_attn.k_norm.weight",              "attn_k_norm.weight"},
};

// Multi-head latent attention.
inline constexpr std::array kMla = {
    TensorRow{"self_attn.q_a_proj.weight",            "attn_q_a.weight"},
    TensorRow{"self_attn.q_a_proj.bias",              "attn_q_a.bias"},
    TensorRow{"self_attn.q_a_layernorm.weight",       "attn_q_a_norm.weight"},
    TensorRow{"self_attn.q_b_proj.weight",            "attn_q_b.weight"},
    TensorRow{"self_attn.kv_a_proj_with_mqa.weight",  "attn_kv_a_mqa.weight"},
    TensorRow{"self_attn.kv_a_proj_with_mqa.bias",    "attn_kv_a_mqa.bias"},
    TensorRow{"self_attn.kv_a_layernorm.weight",      "attn_kv_a_norm.weight"},
    TensorRow{"self_attn.kv_b_proj.weight",           "attn_k_b.weight",           TensorTransform::KvBKey},
    TensorRow{"self_attn.kv_b_proj.weight",           "attn_v_b.weight",           TensorTransform::KvBValue},
    TensorRow{"self_attn.kv_b_proj.weight",           "attn_kv_b.weight",          TensorTransform::Same, true},
};

inline constexpr std::array kMlp = {
    TensorRow{"mlp.gate_proj.weight",                 "ffn_gate.weight"},
    TensorRow{"mlp.gate_proj.bias",                   "ffn_gate.bias"},
    TensorRow{"mlp.up_proj.weight",                   "ffn_up.weight"},
    TensorRow{"mlp.up_proj.bias",                     "ffn_up.bias"},
    TensorRow{"mlp.down_proj.weight",                 "ffn_down.weight"},
    TensorRow{"mlp.down_proj.bias",                   "ffn_down.bias"},
};

inline constexpr std::array kExperts = {
    TensorRow{"mlp.experts.@.gate_proj.weight",       "ffn_gate_exps.weight",      TensorTransform::Expert},
    TensorRow{"mlp.experts.@.up_proj.weight",         "ffn_up_exps.weight",        TensorTransform::Expert},
    TensorRow{"mlp.experts.@.down_proj.weight",       "ffn_down_exps.weight",      TensorTransform::Expert},
};

// The router, and the experts as recent versions of transformers save them. After the rows of the
// single experts: of several Hugging Face names for a GGUF tensor the first is the usual one.
inline constexpr std::array kRouterAndFusedExperts = {
    TensorRow{"mlp.gate.weight",                      "ffn_gate_inp.weight"},
    TensorRow{"mlp.experts.gate_up_proj",             "ffn_gate_exps.weight",      TensorTransform::FirstHalf},
    TensorRow{"mlp.experts.gate_up_proj",             "ffn_up_exps.weight",        TensorTransform::SecondHalf},
    TensorRow{"mlp.experts.gate_up_proj",             "ffn_gate_up_exps.weight",   TensorTransform::Same, true},
    TensorRow{"mlp.experts.down_proj",                "ffn_down_exps.weight"},
};

// DeepSeek-V3's routing and shared experts, which other families adopted.
inline constexpr std::array kSharedExperts = {
    TensorRow{"mlp.gate.e_score_correction_bias",     "exp_probs_b.bias"},
    TensorRow{"mlp.shared_experts.gate_proj.weight",  "ffn_gate_shexp.weight"},
    TensorRow{"mlp.shared_experts.up_proj.weight",    "ffn_up_shexp.weight"},
    TensorRow{"mlp.shared_experts.down_proj.weight",  "ffn_down_shexp.weight"},
};

// Next-token-prediction layers.
inline constexpr std::array kNextn = {
    TensorRow{"eh_proj.weight",                       "nextn.eh_proj.weight"},
    TensorRow{"enorm.weight",                         "nextn.enorm.weight"},
    TensorRow{"hnorm.weight",                         "nextn.hnorm.weight"},
    TensorRow{"embed_tokens.weight",                  "nextn.embed_tokens.weight"},
    TensorRow{"shared_head.head.weight",              "nextn.shared_head_head.weight"},
    TensorRow{"shared_head.norm.weight",              "nextn.shared_head_norm.weight"},
};

inline constexpr std::array kFusedExperts = {
    FusedRow{"mlp.experts.@.gate_proj.weight",        "mlp.experts.gate_up_proj",  TensorTransform::FirstHalf},
    FusedRow{"mlp.experts.@.up_proj.weight",          "mlp.experts.gate_up_proj",  TensorTransform::SecondHalf},
    FusedRow{"mlp.experts.@.down_proj.weight",        "mlp.experts.down_proj",     TensorTransform::Expert},
};
// clang-format on

}  // namespace rows
}  // namespace graft::models
