#include "graft/ops/fusions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/ops/builtin_kwargs.h"

namespace graft::ops {
namespace {

// The same condition as cuda::weight_layout().
bool has_converted_input(const LinearParams& params, DType dtype, const Kwargs& kwargs) {
  const bool is_fast =
      parse_word(precision_kwarg(), text_or_fallback(precision_kwarg(), kwargs)) != "f32";
  return is_fast && params.in_features % 32 == 0 && has_cuda_panels(dtype);
}

// In layers of Gemma, which adds and converts where others have post_attention_layernorm.
constexpr std::string_view kSecondNorm = "pre_feedforward_layernorm";

Fusion grouped_linear(Role parent, std::vector<std::string_view> children) {
  return {.parent = parent,
          .name = "% in one launch",
          .children = std::move(children),
          .supports = has_converted_input,
          .needs_equal_types = true,
          .is_decode_only = true};
}

Fusion add_norm(std::string_view norm, bool needs_pending_add) {
  return {.parent = Role::Layer,
          .name = "add+%",
          .children = {norm},
          .min_children = 1,
          .needs_pending_add = needs_pending_add};
}

// A norm converts its result when the first projection of its consumer multiplies F16 or int8. A
// MoE block has none: its routed experts decide, or else its shared experts.
std::vector<Fusion> converting_norms() {
  return {{.parent = Role::Layer,
           .name = "input_layernorm+conversion for self_attn",
           .children = {"self_attn", "self_attn.q_proj", "self_attn.q_a_proj"},
           .supports = has_converted_input,
           .consumer = "self_attn",
           .is_decode_only = true,
           .needs_pending_add = true},
          {.parent = Role::Layer,
           .name = "post_attention_layernorm+conversion for mlp",
           .children = {"mlp", "mlp.gate_proj"},
           .supports = has_converted_input,
           .consumer = "mlp",
           .is_decode_only = true,
           .only_without = kSecondNorm},
          {.parent = Role::Layer,
           .name = "pre_feedforward_layernorm+conversion for mlp",
           .children = {"mlp", "mlp.gate_proj"},
           .supports = has_converted_input,
           .consumer = "mlp",
           .is_decode_only = true,
           .only_with = kSecondNorm}};
}

std::vector<Fusion> make_cuda_fusions() {
  std::vector<Fusion> fusions = {
      grouped_linear(Role::Attention, {"q_proj", "k_proj", "v_proj"}),
      grouped_linear(Role::Attention, {"q_proj", "kv_a_proj_with_mqa"}),
      grouped_linear(Role::Attention, {"q_a_proj", "kv_a_proj_with_mqa"}),
      grouped_linear(Role::Attention, {"q_a_proj", "kv_proj"}),
      grouped_linear(Role::Compressor, {"kv_proj", "gate_proj"}),
      grouped_linear(Role::Indexer, {"kv_proj", "gate_proj"}),
      grouped_linear(Role::Attention, {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"}),
      grouped_linear(Role::Indexer, {"wk", "weights_proj"}),
      grouped_linear(Role::Mlp, {"gate_proj", "up_proj"}),
      {.parent = Role::Mlp,
       .name = "activation+conversion for %",
       .children = {"down_proj"},
       .supports = has_converted_input,
       .min_children = 1,
       .consumer = "down_proj",
       .is_decode_only = true,
       .is_silu_only = true},
      {.parent = Role::Attention,
       .name = "% write in one launch",
       .children = {"q_norm", "k_norm", "qk_norm", "kv_a_layernorm", "q_b_norm", "kv_norm",
                    "rotary_emb", "kv_cache"}},
      {.parent = Role::Indexer,
       .name = "% write in one launch",
       .children = {"rotary_emb", "kv_cache"}},
      add_norm("input_layernorm", true),
      add_norm("post_attention_layernorm", false),
      add_norm(kSecondNorm, false),
  };
  fusions[fusions.size() - 2].only_without = kSecondNorm;
  for (Fusion& fusion : converting_norms())
    fusions.push_back(std::move(fusion));
  return fusions;
}

}  // namespace

std::string Fusion::name_of(std::span<const std::string_view> joined) const {
  std::string list;
  for (const std::string_view child : joined)
    list.append(list.empty() ? "" : "+").append(child);
  std::string text(name);
  const auto at = text.find('%');
  return at == std::string::npos ? text : text.replace(at, 1, list);
}

bool has_cuda_panels(DType dtype) {
  constexpr std::array kTypes = {
      DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1,   DType::Q8_0,   DType::Q2_K, DType::Q3_K,
      DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::IQ4_NL, DType::IQ4_XS, DType::MXFP4};
  return std::ranges::find(kTypes, dtype) != kTypes.end();
}

std::span<const Fusion> cuda_fusions() {
  static const std::vector<Fusion> fusions = make_cuda_fusions();
  return fusions;
}

}  // namespace graft::ops
