#include "graft/models/weights/unused_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/models/families/vision_names.h"

namespace graft::models {
namespace {

using formats::TensorInfo;

constexpr auto kOtherModalities = std::to_array<std::string_view>(
    {"vision_tower.", "vision_model.", "visual.", "multi_modal_projector.", "mm_projector.",
     "image_newline", "audio_tower.", "embed_vision.", "embed_audio."});

// Parts of names that every family may have beside its weights.
constexpr auto kOptionalParts = std::to_array<std::string_view>({
    "rotary_emb",     // inv_freq buffers, computed from the configuration
    "rope_freqs",     // llama.cpp's
    "rope_factors",   // read with the configuration
    "attn_rot_embd",  // of old GGUF files
    "masked_bias",    // causal masks
    "mtp.",           // layers that predict further tokens
    ".nextn.",
    "_scale",    // of FP8 weights and activations, read with their weight
    ".k_scale",  // of FP8 KV caches
    ".v_scale",
    "lm_head.",  // tied to the embedding, where it is not used
    "output.weight",
    "attn_kv_b.",  // GGUF files may have it beside the two tensors made from it
    "attn_k_b.",
    "attn_v_b.",
});

bool contains_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

// Of a part for images or sound beside the text model.
bool is_of_other_modality(std::string_view tensor_name) {
  return contains_any(tensor_name, kOtherModalities);
}

// N of "model.layers.N." and "blk.N."; -1 for other names.
std::int64_t layer_index(std::string_view name) {
  for (const std::string_view prefix : {"layers.", "blk."}) {
    const std::size_t at = name.find(prefix);
    if (at == std::string_view::npos) continue;
    const std::string_view digits = name.substr(at + prefix.size());
    std::int64_t layer = -1;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
    if (error == std::errc() && stop != digits.data() + digits.size() && *stop == '.') return layer;
  }
  return -1;
}

// Layers that predict further tokens: they join the embedding of a token and a hidden state.
std::set<std::int64_t> nextn_layers(std::span<const TensorInfo> tensors) {
  std::set<std::int64_t> layers;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.find("eh_proj") != std::string::npos) layers.insert(layer_index(tensor.name));
  }
  return layers;
}

}  // namespace

std::string modality_warning(std::span<const TensorInfo> tensors, const ModelConfig& config) {
  if (config.vision) return {};
  const auto count = std::ranges::count_if(
      tensors, [](const TensorInfo& tensor) { return is_of_other_modality(tensor.name); });
  if (count == 0) return {};
  return str("only the text model is used: ", count, count == 1 ? " tensor" : " tensors",
             " for images or sound ", count == 1 ? "is" : "are", " ignored");
}

std::string unused_tensors_problem(std::span<const TensorInfo> tensors,
                                   const std::unordered_set<const TensorInfo*>& used,
                                   const ModelConfig& config) {
  constexpr std::size_t kMaxNamed = 4;
  const std::set<std::int64_t> nextn = nextn_layers(tensors);
  std::vector<std::string_view> names;
  std::int64_t last_layer = -1;
  for (const TensorInfo& tensor : tensors) {
    if (used.contains(&tensor) || contains_any(tensor.name, kOptionalParts) ||
        is_of_other_modality(tensor.name) || (config.vision && is_gguf_vision_tensor(tensor.name)))
      continue;
    const std::int64_t layer = layer_index(tensor.name);
    if (layer >= config.num_hidden_layers && nextn.contains(layer)) continue;
    last_layer = std::max(last_layer, layer);
    names.emplace_back(tensor.name);
  }
  if (names.empty()) return {};
  std::string text;
  if (last_layer >= config.num_hidden_layers) {
    text = str("the files have ", last_layer + 1, " layers, the configuration counts ",
               config.num_hidden_layers, "; ");
  }
  text += str(names.size(), names.size() == 1 ? " tensor is" : " tensors are", " not used: ");
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i)
    text += str(i == 0 ? "" : ", ", names[i]);
  return names.size() > kMaxNamed ? text + ", …" : text;
}

}  // namespace graft::models
