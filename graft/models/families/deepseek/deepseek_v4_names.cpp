#include "graft/models/families/deepseek/deepseek_v4_names.h"

#include <array>
#include <cstddef>

#include "graft/base/text/str.h"

namespace graft::models {
namespace {

// clang-format off
struct Spelling {
  std::string_view stored;
  std::string_view module;
};

// Outside the layers.
constexpr std::array kV4Spellings = {
    Spelling{"embed.weight",                             "model.embed_tokens.weight"},
    Spelling{"norm.weight",                              "model.norm.weight"},
    Spelling{"head.weight",                              "lm_head.weight"},
    Spelling{"hc_head_fn",                               "model.hc_head.hc_fn"},
    Spelling{"hc_head_base",                             "model.hc_head.hc_base"},
    Spelling{"hc_head_scale",                            "model.hc_head.hc_scale"},
};

// Below a layer.
constexpr std::array kV4LayerSpellings = {
    Spelling{"attn_norm.weight",                         "input_layernorm.weight"},
    Spelling{"ffn_norm.weight",                          "post_attention_layernorm.weight"},
    Spelling{"hc_attn_fn",                               "attn_hc.fn"},
    Spelling{"hc_attn_base",                             "attn_hc.base"},
    Spelling{"hc_attn_scale",                            "attn_hc.scale"},
    Spelling{"hc_ffn_fn",                                "ffn_hc.fn"},
    Spelling{"hc_ffn_base",                              "ffn_hc.base"},
    Spelling{"hc_ffn_scale",                             "ffn_hc.scale"},
    Spelling{"attn.attn_sink",                           "self_attn.sinks"},
    Spelling{"attn.wq_a.weight",                         "self_attn.q_a_proj.weight"},
    Spelling{"attn.q_norm.weight",                       "self_attn.q_a_norm.weight"},
    Spelling{"attn.wq_b.weight",                         "self_attn.q_b_proj.weight"},
    Spelling{"attn.wkv.weight",                          "self_attn.kv_proj.weight"},
    Spelling{"attn.kv_norm.weight",                      "self_attn.kv_norm.weight"},
    Spelling{"attn.norm.weight",                         "self_attn.kv_norm.weight"},
    Spelling{"attn.wo_a.weight",                         "self_attn.o_a_proj.weight"},
    Spelling{"attn.wo_b.weight",                         "self_attn.o_b_proj.weight"},
    Spelling{"attn.compressor.wkv.weight",               "self_attn.compressor.kv_proj.weight"},
    Spelling{"attn.compressor.wgate.weight",             "self_attn.compressor.gate_proj.weight"},
    Spelling{"attn.compressor.ape",                      "self_attn.compressor.position_bias"},
    Spelling{"attn.compressor.norm.weight",              "self_attn.compressor.kv_norm.weight"},
    Spelling{"attn.indexer.compressor.wkv.weight",       "self_attn.compressor.indexer.kv_proj.weight"},
    Spelling{"attn.indexer.compressor.wgate.weight",     "self_attn.compressor.indexer.gate_proj.weight"},
    Spelling{"attn.indexer.compressor.ape",              "self_attn.compressor.indexer.position_bias"},
    Spelling{"attn.indexer.compressor.norm.weight",      "self_attn.compressor.indexer.kv_norm.weight"},
    Spelling{"attn.indexer.wq_b.weight",                 "self_attn.compressor.indexer.q_b_proj.weight"},
    Spelling{"attn.indexer.weights_proj.weight",         "self_attn.compressor.indexer.scorer.weights_proj.weight"},
    Spelling{"ffn.gate.weight",                          "mlp.gate.weight"},
    Spelling{"ffn.gate.bias",                            "mlp.gate.e_score_correction_bias"},
    Spelling{"ffn.gate.tid2eid",                         "mlp.gate.tid2eid"},
    Spelling{"ffn.shared_experts.w1.weight",             "mlp.shared_experts.gate_proj.weight"},
    Spelling{"ffn.shared_experts.w2.weight",             "mlp.shared_experts.down_proj.weight"},
    Spelling{"ffn.shared_experts.w3.weight",             "mlp.shared_experts.up_proj.weight"},
};

// The ends of the names of a routed expert.
constexpr std::array kV4ExpertSpellings = {
    Spelling{".w1.weight",                               ".gate_proj.weight"},
    Spelling{".w2.weight",                               ".down_proj.weight"},
    Spelling{".w3.weight",                               ".up_proj.weight"},
};
// clang-format on

// Of a tensor below a layer; the name itself when it is none of theirs.
std::string layer_module_name(std::string_view rest) {
  constexpr std::string_view kStoredExperts = "ffn.experts.";
  for (const Spelling& spelling : kV4LayerSpellings) {
    if (rest == spelling.stored) return std::string(spelling.module);
  }
  if (!rest.starts_with(kStoredExperts)) return std::string(rest);
  for (const Spelling& spelling : kV4ExpertSpellings) {
    if (!rest.ends_with(spelling.stored)) continue;
    const std::string_view expert = rest.substr(
        kStoredExperts.size(), rest.size() - kStoredExperts.size() - spelling.stored.size());
    return str("mlp.experts.", expert, spelling.module);
  }
  return std::string(rest);
}

}  // namespace

std::string v4_module_name(std::string_view stored) {
  constexpr std::string_view kLayers = "layers.";
  constexpr std::string_view kModel = "model.";
  for (const Spelling& spelling : kV4Spellings) {
    if (stored == spelling.stored) return std::string(spelling.module);
  }
  std::string_view name = stored;
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  if (!name.starts_with(kLayers)) return std::string(stored);
  const std::size_t end = name.find('.', kLayers.size());
  if (end == std::string_view::npos) return std::string(stored);
  return str(kModel, name.substr(0, end + 1), layer_module_name(name.substr(end + 1)));
}

}  // namespace graft::models
