#include "graft/models/tensor_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "graft/base/text/str.h"

namespace graft::models {
namespace {

using formats::Architecture;
using formats::Layout;
using formats::ModelConfig;
using formats::TensorInfo;

// The names a weight may have in published checkpoints, the usual one first.
std::vector<std::string> aliases(const ModelConfig& config, std::string_view name) {
  std::vector<std::string> names;
  if (config.architecture == Architecture::Llava) {
    names.push_back(str("language_model.", name));
    if (name.starts_with("model.")) names.push_back(str("model.language_model.", name.substr(6)));
  }
  names.emplace_back(name);
  // Mixtral as newer versions of Transformers save it.
  constexpr std::string_view kClassic = ".block_sparse_moe.";
  const std::size_t at = name.find(kClassic);
  if (at != std::string_view::npos) {
    names.push_back(str(name.substr(0, at), ".mlp.", name.substr(at + kClassic.size())));
  }
  return names;
}

struct ExpertName {
  std::string_view module;  // "model.layers.3.mlp.experts"
  std::int64_t expert = 0;
  std::string_view projection;  // "gate_proj", or Mixtral's "w1"
};

// "model.layers.3.mlp.experts.7.gate_proj.weight" in its parts.
std::optional<ExpertName> split_expert(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  constexpr std::string_view kWeight = ".weight";
  const std::size_t at = name.find(kExperts);
  if (at == std::string_view::npos || !name.ends_with(kWeight)) return std::nullopt;
  ExpertName parts;
  parts.module = name.substr(0, at + kExperts.size() - 1);
  std::string_view rest = name.substr(at + kExperts.size());
  rest.remove_suffix(kWeight.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), parts.expert);
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc() || digits == rest.size() || rest[digits] != '.') return std::nullopt;
  parts.projection = rest.substr(digits + 1);
  return parts;
}

struct FusedPart {
  std::string_view projection;
  std::string_view tensor;  // below the experts' module
  Layout layout;
};

constexpr std::array kFusedParts = {
    FusedPart{"gate_proj", "gate_up_proj", Layout::ExpertsGateHalf},
    FusedPart{"up_proj", "gate_up_proj", Layout::ExpertsUpHalf},
    FusedPart{"down_proj", "down_proj", Layout::Expert},
    FusedPart{"w1", "gate_up_proj", Layout::ExpertsGateHalf},
    FusedPart{"w3", "gate_up_proj", Layout::ExpertsUpHalf},
    FusedPart{"w2", "down_proj", Layout::Expert},
};

bool is_gguf(const formats::WeightSource& source) {
  return source.format().starts_with("GGUF");
}

bool is_split_kv_b(const std::vector<Place>& places) {
  return places.size() == 2 && places[0].layout == Layout::KvBKey &&
         places[1].layout == Layout::KvBValue;
}

bool is_half(Layout layout) {
  return layout == Layout::ExpertsGateHalf || layout == Layout::ExpertsUpHalf;
}

// Whether a merged tensor is one, and has this expert.
bool has_expert(const TensorInfo& tensor, std::int64_t expert) {
  return tensor.shape.size() >= 2 && expert < tensor.shape[0];
}

}  // namespace

std::vector<std::int64_t> Place::shape() const {
  std::vector<std::int64_t> dims = tensor->shape;
  if (expert >= 0) dims.erase(dims.begin());
  if (is_half(layout)) dims[0] /= 2;
  return dims;
}

std::span<const std::byte> Place::bytes() const {
  if (expert < 0) return tensor->data;
  const std::size_t expert_bytes = tensor->data.size() / static_cast<std::size_t>(tensor->shape[0]);
  const auto one =
      tensor->data.subspan(static_cast<std::size_t>(expert) * expert_bytes, expert_bytes);
  if (!is_half(layout)) return one;
  return layout == Layout::ExpertsGateHalf ? one.first(one.size() / 2) : one.last(one.size() / 2);
}

TensorIndex::TensorIndex(const formats::WeightSource& source) : source_(&source) {
  if (!is_gguf(source)) return;
  for (const TensorInfo& tensor : source.tensors()) {
    for (const formats::NameSlot& slot : formats::to_huggingface(source.config(), tensor.name)) {
      gguf_places_[slot.name].push_back({&tensor, slot.layout, slot.expert, slot.num_heads});
    }
  }
}

std::optional<FoundWeight> TensorIndex::find(std::string_view hf_name) const {
  FoundWeight found;
  found.places = places_of(hf_name);
  if (found.places.empty()) return std::nullopt;
  if (is_split_kv_b(found.places)) {
    // Taking the two apart and transposing one needs plain numbers.
    const ModelConfig& config = source_->config();
    found.dtype = DType::F32;
    found.shape = {
        config.num_attention_heads * (config.mla.qk_nope_head_dim + config.mla.v_head_dim),
        config.mla.kv_lora_rank};
    return found;
  }
  found.dtype = found.places[0].tensor->dtype;
  found.shape = found.places[0].shape();
  return found;
}

std::vector<Place> TensorIndex::places_of(std::string_view hf_name) const {
  for (const std::string& name : aliases(source_->config(), hf_name)) {
    if (const auto place = direct(name)) return {*place};
    const auto merged = gguf_places_.find(name);
    if (merged == gguf_places_.end()) continue;
    std::vector<Place> places = merged->second;
    std::ranges::sort(places, {}, &Place::layout);  // key before value
    if (is_split_kv_b(places)) return places;
  }
  if (const auto place = in_fused_experts(hf_name)) return {*place};
  if (hf_name == "lm_head.weight" && source_->config().tie_word_embeddings) {
    return places_of("model.embed_tokens.weight");
  }
  return {};
}

// A stored tensor that is the weight, alone or as one of the experts of a merged one.
std::optional<Place> TensorIndex::direct(const std::string& name) const {
  if (!is_gguf(*source_)) {
    const TensorInfo* tensor = source_->find(name);
    return tensor == nullptr ? std::nullopt : std::optional(Place{.tensor = tensor});
  }
  const auto found = gguf_places_.find(name);
  if (found == gguf_places_.end()) return std::nullopt;
  for (const Place& place : found->second) {
    if (place.layout == Layout::Same || place.layout == Layout::RopePairs) return place;
    if (place.layout == Layout::Expert && has_expert(*place.tensor, place.expert)) return place;
  }
  return std::nullopt;
}

std::optional<Place> TensorIndex::in_fused_experts(std::string_view hf_name) const {
  const auto expert = split_expert(hf_name);
  if (!expert) return std::nullopt;
  for (const FusedPart& part : kFusedParts) {
    if (part.projection != expert->projection) continue;
    for (const std::string& name :
         aliases(source_->config(), str(expert->module, '.', part.tensor))) {
      auto place = direct(name);
      if (!place || !has_expert(*place->tensor, expert->expert)) continue;
      place->layout = part.layout;
      place->expert = expert->expert;
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace graft::models
