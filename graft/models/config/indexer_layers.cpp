#include "graft/models/config/indexer_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"

namespace graft::models {
namespace {

constexpr const char* kTypesKey = "attention.indexer.types";
constexpr std::int64_t kMaxIndexerLayers = 4096;  // as in validate()

// Empty: a value is neither "full" nor "shared".
std::vector<bool> layers_of_types(const std::vector<std::string>& types) {
  std::vector<bool> layers;
  for (const std::string& type : types) {
    if (type != "full" && type != "shared") return {};
    layers.push_back(type == "full");
  }
  return layers;
}

std::vector<bool> layers_of_letters(const std::string& letters) {
  std::vector<bool> layers;
  for (const char letter : letters) {
    if (letter != 'F' && letter != 'S') return {};
    layers.push_back(letter == 'F');
  }
  return layers;
}

// Layer offset - 1, and from there every frequency-th layer; all layers before it.
std::vector<bool> periodic_indexers(std::int64_t frequency,
                                    std::int64_t offset,
                                    std::int64_t num_layers) {
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < std::min(num_layers, kMaxIndexerLayers); ++layer) {
    const std::int64_t after = std::max<std::int64_t>(layer - offset + 1, 0);
    layers.push_back(after % std::max<std::int64_t>(frequency, 1) == 0);
  }
  return layers;
}

// A list of words, or for the pattern also a word of letters.
void read_listed(const formats::Fields& fields, const char* key, ModelConfig& config) {
  const Json& value = *fields.find(key);
  std::vector<bool> layers = value.is_string() ? layers_of_letters(value.get<std::string>())
                                               : layers_of_types(fields.texts(key));
  if (static_cast<std::int64_t>(layers.size()) != config.num_hidden_layers || !layers.front()) {
    return fields.problem(key, value,
                          str(config.num_hidden_layers, " times full or shared, full first"));
  }
  config.indexer.layers = std::move(layers);
}

// An indexer in every layer is an empty list.
void simplify(std::vector<bool>& layers) {
  if (std::ranges::count(layers, false) == 0) layers.clear();
}

std::optional<std::vector<bool>> stored_types(const formats::GgufFields& gguf) {
  const std::string key = gguf.key(kTypesKey);
  const formats::GgufArray* array = gguf.metadata().array(key);
  if (array == nullptr) return std::nullopt;
  std::vector<bool> layers;
  if (array->type == formats::GgufType::Bool) {
    for (const std::byte value : array->bytes)
      layers.push_back(value != std::byte{0});
    return layers;
  }
  const auto integers = array->integers();
  if (!integers) fail("metadata key \"", key, "\" is not an array of booleans");
  for (const std::int64_t value : *integers)
    layers.push_back(value != 0);
  return layers;
}

}  // namespace

void read_indexer_layers(const formats::Fields& fields, ModelConfig& config) {
  if (fields.has("indexer_types")) {
    read_listed(fields, "indexer_types", config);
  } else if (fields.has("index_topk_pattern")) {
    read_listed(fields, "index_topk_pattern", config);
  } else {
    config.indexer.layers =
        periodic_indexers(fields.integer("index_topk_freq", 1),
                          fields.integer("index_skip_topk_offset", 2), config.num_hidden_layers);
  }
  simplify(config.indexer.layers);
}

void read_gguf_indexer_layers(const formats::GgufFields& gguf, ModelConfig& config) {
  std::vector<bool>& layers = config.indexer.layers;
  if (const auto types = stored_types(gguf)) {
    layers = *types;
  } else if (!gguf.tensors().empty()) {
    for (std::int64_t i = 0; i < std::min(config.num_hidden_layers, kMaxIndexerLayers); ++i)
      layers.push_back(gguf.has_tensor(str("blk.", i, ".indexer.attn_k.weight")));
  }
  simplify(layers);
}

void write_gguf_indexer_layers(const ModelConfig& config, formats::GgufKeyWriter& out) {
  // Always: llama.cpp has another default for contexts of a million tokens.
  formats::GgufArray types;
  types.type = formats::GgufType::Bool;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    types.bytes.push_back(static_cast<std::byte>(config.layer_has_indexer(layer) ? 1 : 0));
  types.count = types.bytes.size();
  out.array(kTypesKey, std::move(types));
}

}  // namespace graft::models
