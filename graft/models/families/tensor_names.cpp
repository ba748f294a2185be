#include "graft/models/families/tensor_names.h"

#include <limits>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

constexpr std::string_view kHfLayers = "model.layers.";
constexpr std::string_view kGgufLayers = "blk.";

// Removes a decimal integer without sign or leading zeros from the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
  constexpr std::size_t kMaxDigits = 9;
  std::size_t digits = 0;
  std::int64_t number = 0;
  while (digits < text.size() && digits < kMaxDigits && text[digits] >= '0' &&
         text[digits] <= '9') {
    number = number * 10 + (text[digits] - '0');
    ++digits;
  }
  if (digits == 0 || (digits > 1 && text[0] == '0')) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The number at the '@' of the pattern, -1 for a pattern without '@', nullopt for no match.
std::optional<std::int64_t> match(std::string_view pattern, std::string_view name) {
  const std::size_t hole = pattern.find('@');
  if (hole == std::string_view::npos) {
    return pattern == name ? std::optional<std::int64_t>(-1) : std::nullopt;
  }
  if (!take_prefix(name, pattern.substr(0, hole))) return std::nullopt;
  const auto number = take_number(name);
  return number && name == pattern.substr(hole + 1) ? number : std::nullopt;
}

std::string fill(std::string_view pattern, std::int64_t number) {
  const std::size_t hole = pattern.find('@');
  if (hole == std::string_view::npos) return std::string(pattern);
  return str(pattern.substr(0, hole), number, pattern.substr(hole + 1));
}

struct LayerName {
  std::int64_t layer;
  std::string_view rest;
};

// "model.layers.3.mlp.gate.weight" → 3, "mlp.gate.weight"
std::optional<LayerName> split_layer(std::string_view name,
                                     std::string_view prefix,
                                     std::int64_t num_layers) {
  if (!take_prefix(name, prefix)) return std::nullopt;
  const auto layer = take_number(name);
  if (!layer || *layer >= num_layers || !take_prefix(name, ".")) return std::nullopt;
  return LayerName{*layer, name};
}

std::int64_t num_layers(const ModelConfig& config) {
  return config.num_hidden_layers + config.num_nextn_predict_layers;
}

// A row of the whole model or of a layer that one of the two names matches.
struct RowMatch {
  const TensorRow* row;
  std::int64_t layer;   // -1: outside the layers
  std::int64_t expert;  // -1: the pattern has no expert
};

// `side` is the member of TensorRow that `name` is compared with.
std::vector<RowMatch> matching_rows(const ModelConfig& config,
                                    std::string_view TensorRow::*side,
                                    std::string_view layers,
                                    std::string_view name) {
  std::vector<RowMatch> matches;
  for (const TensorRow& row : rows::kModel) {
    if (row.*side == name) matches.push_back({.row = &row, .layer = -1, .expert = -1});
  }
  const auto in_layer = split_layer(name, layers, num_layers(config));
  if (!in_layer) return matches;
  for (const std::span<const TensorRow> group : config.family->tensors) {
    for (const TensorRow& row : group) {
      const auto expert = match(row.*side, in_layer->rest);
      if (!expert || (*expert >= 0 && *expert >= config.moe.num_experts)) continue;
      matches.push_back({.row = &row, .layer = in_layer->layer, .expert = *expert});
    }
  }
  return matches;
}

std::int64_t heads_of(const TensorRow& row, const ModelConfig& config) {
  if (row.transform != TensorTransform::RopePairs) return 0;
  return row.hf.starts_with("self_attn.k_proj") ? config.num_key_value_heads
                                                : config.num_attention_heads;
}

bool has_text_prefixes(const Family& family) {
  return !family.text_prefixes[0].stored.empty();
}

// The name a text model alone would have; empty for tensors of other parts of the model.
std::string without_text_prefix(const Family& family, std::string_view name) {
  if (!has_text_prefixes(family)) return std::string(name);
  for (const NamePrefix& prefix : family.text_prefixes) {
    if (take_prefix(name, prefix.stored)) return str(prefix.plain, name);
  }
  // Recent checkpoints store only the head at the top level.
  return name == "lm_head.weight" ? std::string(name) : std::string();
}

void add_with_text_prefixes(const Family& family, MappedName mapped, std::vector<MappedName>& out) {
  if (!has_text_prefixes(family)) {
    out.push_back(std::move(mapped));
    return;
  }
  for (const NamePrefix& prefix : family.text_prefixes) {
    MappedName& stored = out.emplace_back(mapped);
    std::string_view rest = mapped.name;
    if (take_prefix(rest, prefix.plain)) stored.name = str(prefix.stored, rest);
  }
}

}  // namespace

bool is_plus_one(const Family& family, std::string_view hf_name) {
  return family.norms_plus_one && hf_name.ends_with("norm.weight") &&
         !hf_name.ends_with("linear_attn.norm.weight");
}

std::vector<MappedName> to_gguf(const ModelConfig& config, std::string_view hf_name) {
  std::vector<MappedName> mapped;
  const auto module_name = config.family->module_name;
  const std::string name =
      module_name == nullptr ? without_text_prefix(*config.family, hf_name) : module_name(hf_name);
  if (name == "lm_head.weight" && config.tie_word_embeddings) return mapped;
  for (const RowMatch& found : matching_rows(config, &TensorRow::hf, kHfLayers, name)) {
    const TensorRow& row = *found.row;
    if (row.read_only) continue;
    const bool is_expert = row.transform == TensorTransform::Expert;
    const bool plus_one = is_plus_one(*config.family, name);
    mapped.push_back({.name = found.layer < 0 ? std::string(row.gguf)
                                              : str(kGgufLayers, found.layer, '.', row.gguf),
                      .transform = plus_one ? TensorTransform::PlusOne : row.transform,
                      .expert = is_expert ? found.expert : -1,
                      .num_heads = heads_of(row, config)});
  }
  return mapped;
}

std::vector<MappedName> to_huggingface(const ModelConfig& config, std::string_view gguf_name) {
  std::vector<MappedName> mapped;
  for (const RowMatch& found : matching_rows(config, &TensorRow::gguf, kGgufLayers, gguf_name)) {
    const TensorRow& row = *found.row;
    const bool is_expert = row.transform == TensorTransform::Expert;
    const std::int64_t first = is_expert ? 0 : found.expert;
    const std::int64_t last = is_expert ? config.moe.num_experts - 1 : found.expert;
    const std::string prefix = found.layer < 0 ? "" : str(kHfLayers, found.layer, '.');
    for (std::int64_t i = first; i <= last; ++i) {
      add_with_text_prefixes(*config.family,
                             {.name = prefix + fill(row.hf, i),
                              .transform = row.transform,
                              .expert = is_expert ? i : -1,
                              .num_heads = heads_of(row, config)},
                             mapped);
    }
  }
  return mapped;
}

std::vector<std::string> stored_names(const Family& family, std::string_view hf_name) {
  std::vector<std::string> names;
  for (const NamePrefix& prefix : family.text_prefixes) {
    std::string_view rest = hf_name;
    if (!prefix.stored.empty() && take_prefix(rest, prefix.plain)) {
      names.push_back(str(prefix.stored, rest));
    }
  }
  names.emplace_back(hf_name);
  const std::string_view part = family.renamed.plain;
  const std::size_t at = part.empty() ? std::string_view::npos : hf_name.find(part);
  if (at != std::string_view::npos) {
    names.push_back(
        str(hf_name.substr(0, at), family.renamed.stored, hf_name.substr(at + part.size())));
  }
  return names;
}

std::vector<FusedName> fused_names(const Family& family, std::string_view hf_name) {
  std::vector<FusedName> names;
  const auto layer = split_layer(hf_name, kHfLayers, std::numeric_limits<std::int64_t>::max());
  if (!layer) return names;
  for (const FusedRow& row : family.fused) {
    const auto expert = match(row.weight, layer->rest);
    if (!expert) continue;
    const std::string tensor = str(kHfLayers, layer->layer, '.', row.stored);
    for (std::string& stored : stored_names(family, tensor)) {
      names.push_back({.stored = std::move(stored), .transform = row.transform, .expert = *expert});
    }
  }
  return names;
}

}  // namespace graft::models
