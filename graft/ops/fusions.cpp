#include "graft/ops/fusions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/ops/builtin_kwargs.h"

namespace graft::ops {
namespace {

// The same condition as cuda::input_format() for decode batches.
bool is_multiplied_in_int8(const LinearParams& params, DType dtype, const Kwargs& kwargs) {
  const bool is_fast =
      parse_word(precision_kwarg(), text_or_fallback(precision_kwarg(), kwargs)) != "f32";
  return is_fast && params.in_features % 32 == 0 && has_cuda_int8_kernel(dtype);
}

Fusion grouped_linear(Role parent, std::vector<std::string_view> children) {
  return {.parent = parent,
          .name = "% in one launch",
          .children = std::move(children),
          .supports = is_multiplied_in_int8,
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

// A norm quantizes its result when the first projection of its consumer multiplies int8. A MoE
// block has none: its routed experts decide, or else its shared experts.
std::vector<Fusion> quantizing_norms() {
  return {{.parent = Role::Layer,
           .name = "input_layernorm+int8 quantization for self_attn",
           .children = {"self_attn", "self_attn.q_proj", "self_attn.q_a_proj"},
           .supports = is_multiplied_in_int8,
           .consumer = "self_attn",
           .is_decode_only = true,
           .needs_pending_add = true},
          {.parent = Role::Layer,
           .name = "post_attention_layernorm+int8 quantization for mlp",
           .children = {"mlp", "mlp.gate_proj"},
           .supports = is_multiplied_in_int8,
           .consumer = "mlp",
           .is_decode_only = true}};
}

std::vector<Fusion> make_cuda_fusions() {
  std::vector<Fusion> fusions = {
      grouped_linear(Role::Attention, {"q_proj", "k_proj", "v_proj"}),
      grouped_linear(Role::Attention, {"q_proj", "kv_a_proj_with_mqa"}),
      grouped_linear(Role::Attention, {"q_a_proj", "kv_a_proj_with_mqa"}),
      grouped_linear(Role::Mlp, {"gate_proj", "up_proj"}),
      {.parent = Role::Mlp,
       .name = "activation+int8 quantization for %",
       .children = {"down_proj"},
       .supports = is_multiplied_in_int8,
       .min_children = 1,
       .consumer = "down_proj",
       .is_decode_only = true},
      {.parent = Role::Attention,
       .name = "% write in one launch",
       .children = {"q_norm", "k_norm", "kv_a_layernorm", "rotary_emb", "kv_cache"}},
      add_norm("input_layernorm", true),
      add_norm("post_attention_layernorm", false),
  };
  for (Fusion& fusion : quantizing_norms())
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

bool has_cuda_int8_kernel(DType dtype) {
  constexpr std::array kTypes = {DType::Q4_0,   DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0,
                                 DType::IQ4_NL, DType::Q4_K, DType::Q5_K, DType::Q6_K};
  return std::ranges::find(kTypes, dtype) != kTypes.end();
}

std::span<const Fusion> cuda_fusions() {
  static const std::vector<Fusion> fusions = make_cuda_fusions();
  return fusions;
}

}  // namespace graft::ops
