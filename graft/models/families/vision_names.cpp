#include "graft/models/families/vision_names.h"

#include <array>

#include "graft/base/text/str.h"

namespace graft::models {
namespace {

constexpr std::string_view kTower = "vision_tower.";
constexpr std::string_view kLayers = "vision_tower.encoder.layers.";
constexpr std::string_view kGgufVisionLayers = "v.blk.";

struct VisionRow {
  std::string_view hf;
  std::string_view gguf;
};

// clang-format off
constexpr std::array kVisionRows = {
    VisionRow{"vision_tower.embeddings.class_embedding",           "v.class_embd"},
    VisionRow{"vision_tower.embeddings.patch_embedding.weight",    "v.patch_embd.weight"},
    VisionRow{"vision_tower.embeddings.position_embedding.weight", "v.position_embd.weight"},
    VisionRow{"vision_tower.pre_layrnorm.weight",                  "v.pre_ln.weight"},
    VisionRow{"vision_tower.pre_layrnorm.bias",                    "v.pre_ln.bias"},
    VisionRow{"vision_tower.post_layernorm.weight",                "v.post_ln.weight"},
    VisionRow{"vision_tower.post_layernorm.bias",                  "v.post_ln.bias"},
    VisionRow{"multi_modal_projector.linear_1.weight",             "mm.0.weight"},
    VisionRow{"multi_modal_projector.linear_1.bias",               "mm.0.bias"},
    VisionRow{"multi_modal_projector.linear_2.weight",             "mm.2.weight"},
    VisionRow{"multi_modal_projector.linear_2.bias",               "mm.2.bias"},
    VisionRow{"image_newline",                                     "model.image_newline"},
};

// In a layer, without ".weight" and ".bias".
constexpr std::array kVisionLayerRows = {
    VisionRow{"layer_norm1",        "ln1"},
    VisionRow{"layer_norm2",        "ln2"},
    VisionRow{"self_attn.q_proj",   "attn_q"},
    VisionRow{"self_attn.k_proj",   "attn_k"},
    VisionRow{"self_attn.v_proj",   "attn_v"},
    VisionRow{"self_attn.out_proj", "attn_out"},
    VisionRow{"mlp.fc1",            "ffn_down"},
    VisionRow{"mlp.fc1",            "ffn_up"},
    VisionRow{"mlp.fc2",            "ffn_up"},
    VisionRow{"mlp.fc2",            "ffn_down"},
};
// clang-format on

}  // namespace

bool is_vision_weight(std::string_view hf_name) {
  return hf_name.starts_with(kTower) || hf_name.starts_with("multi_modal_projector.") ||
         hf_name == "image_newline";
}

std::vector<std::string> stored_vision_names(std::string_view hf_name) {
  std::vector<std::string> names;
  for (const std::string_view prefix : {"", "model."}) {
    if (hf_name.starts_with(kTower))
      names.push_back(str(prefix, kTower, "vision_model.", hf_name.substr(kTower.size())));
    names.push_back(str(prefix, hf_name));
  }
  return names;
}

std::vector<std::string> gguf_names_of_vision(std::string_view hf_name) {
  for (const VisionRow& row : kVisionRows) {
    if (row.hf == hf_name) return {std::string(row.gguf)};
  }
  if (!hf_name.starts_with(kLayers)) return {};
  hf_name.remove_prefix(kLayers.size());
  const std::size_t dot = hf_name.find('.');
  const std::size_t last = hf_name.rfind('.');
  if (dot == std::string_view::npos || last == dot) return {};
  std::vector<std::string> names;
  for (const VisionRow& row : kVisionLayerRows) {
    if (row.hf != hf_name.substr(dot + 1, last - dot - 1)) continue;
    names.push_back(
        str(kGgufVisionLayers, hf_name.substr(0, dot + 1), row.gguf, hf_name.substr(last)));
  }
  return names;
}

bool is_gguf_vision_tensor(std::string_view gguf_name) {
  return gguf_name.starts_with("v.") || gguf_name.starts_with("mm.") ||
         gguf_name == "model.image_newline";
}

}  // namespace graft::models
