#include "graft/cli/parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "graft/convert/mix.h"
#include "graft/formats/gguf/metadata.h"

namespace graft::cli {
namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "embedding", "attention", "dense MLP",         "routed experts", "shared experts", "routers",
    "norms",     "head",      "next-token layers", "vision",         "scales",         "other"};

struct PartRow {
  std::string_view pattern;  // anywhere in the name
  Part part;
};

// The first matching row wins, so specific patterns precede general ones.
constexpr std::array kPartRows = {
    PartRow{"_scale", Part::Scales},
    PartRow{"vision_tower", Part::Vision},
    PartRow{"multi_modal_projector", Part::Vision},
    PartRow{"model.visual.", Part::Vision},
    PartRow{"mtp.", Part::NextToken},
    PartRow{"norm", Part::Norms},
    PartRow{"embed_tokens", Part::Embedding},
    PartRow{"token_embd", Part::Embedding},
    PartRow{"lm_head", Part::Head},
    PartRow{"shared_expert", Part::SharedExperts},
    PartRow{"shexp", Part::SharedExperts},
    PartRow{"gate_inp", Part::Routers},
    PartRow{"exp_probs_b", Part::Routers},
    PartRow{"e_score_correction_bias", Part::Routers},
    PartRow{"mlp.gate.", Part::Routers},
    PartRow{"mlp.router.", Part::Routers},
    PartRow{"block_sparse_moe.gate.", Part::Routers},
    PartRow{"experts", Part::RoutedExperts},
    PartRow{"_exps", Part::RoutedExperts},
    PartRow{"attn", Part::Attention},
    PartRow{".ssm_", Part::Attention},
    PartRow{".mlp.", Part::DenseMlp},
    PartRow{".ffn_", Part::DenseMlp},
};

// The layer index in "model.layers.N." or "blk.N."; -1 for other tensors.
std::int64_t layer_of(std::string_view name) {
  for (const std::string_view prefix : {"layers.", "blk."}) {
    const auto at = name.find(prefix);
    if (at == std::string_view::npos) continue;
    std::int64_t layer = -1;
    const std::string_view digits = name.substr(at + prefix.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), layer);
    return layer;
  }
  return -1;
}

}  // namespace

std::string_view name(Part part) {
  return kNames[static_cast<std::size_t>(part)];
}

Part part_of(const models::ModelConfig& config, std::string_view tensor_name) {
  if (tensor_name == "output.weight") return Part::Head;
  const auto* row = std::ranges::find_if(kPartRows, [&](const PartRow& r) {
    return tensor_name.find(r.pattern) != std::string_view::npos;
  });
  const Part part = row == kPartRows.end() ? Part::Other : row->part;
  const bool in_text = part != Part::Vision && part != Part::Scales;
  if (in_text && layer_of(tensor_name) >= config.num_hidden_layers) return Part::NextToken;
  return part;
}

std::string type_text(const formats::WeightSource& source) {
  const formats::GgufMetadata* metadata = source.gguf_metadata();
  const auto file_type =
      metadata != nullptr ? metadata->integer("general.file_type") : std::nullopt;
  for (const convert::Mix& mix : convert::mixes()) {
    if (file_type == mix.file_type) return std::string(mix.name);
  }
  std::map<DType, std::size_t> bytes;
  for (const formats::TensorInfo& tensor : source.tensors())
    bytes[tensor.dtype] += tensor.data.size();
  const auto max = std::ranges::max_element(bytes, {}, [](const auto& row) { return row.second; });
  return max == bytes.end() ? "no weights" : std::string(name(max->first));
}

}  // namespace graft::cli
