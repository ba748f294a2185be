#include "graft/models/build/closest_family.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/formats/tensor_spec.h"
#include "graft/models/build/shapes.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"

namespace graft::models {
namespace {

using Keys = std::set<std::string>;

constexpr std::size_t kMaxListed = 8;

// Keys that say nothing about the architecture.
bool is_common(std::string_view key) {
  constexpr std::array<std::string_view, 16> kCommon = {"architectures",
                                                        "model_type",
                                                        "torch_dtype",
                                                        "dtype",
                                                        "use_cache",
                                                        "initializer_range",
                                                        "auto_map",
                                                        "_name_or_path",
                                                        "pretraining_tp",
                                                        "text_config",
                                                        "vision_config",
                                                        "quantization_config",
                                                        "output_router_logits",
                                                        "output_attentions",
                                                        "output_hidden_states",
                                                        "is_decoder"};
  return std::ranges::find(kCommon, key) != kCommon.end() || key.ends_with("_token_id") ||
         key.ends_with("_dropout") || key.ends_with("_pdrop") || key.ends_with("_version") ||
         key.ends_with("_loss_coef") || key.starts_with("_");
}

// Families spell the number of experts differently.
std::string canonical(const std::string& key) {
  return key == "num_local_experts" || key == "n_routed_experts" ? "num_experts" : key;
}

// "model.layers.3.mlp.experts.7.up_proj.weight" → "mlp.experts.N.up_proj.weight"
std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t dot = std::min(name.find('.', begin), name.size());
    const std::string_view word = name.substr(begin, dot - begin);
    const bool is_number = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    pattern += str(pattern.empty() ? "" : ".", is_number ? "N" : word);
    begin = dot + 1;
  }
  for (const std::string_view layer : {"layers.N.", "blk.N."}) {
    const std::size_t at = pattern.find(layer);
    if (at != std::string::npos) return pattern.substr(at + layer.size());
  }
  return pattern;
}

// One name for each pattern.
std::vector<std::pair<std::string, std::string>> patterns_of(
    std::span<const formats::TensorInfo> tensors) {
  std::vector<std::pair<std::string, std::string>> patterns;
  Keys seen;
  for (const formats::TensorInfo& tensor : tensors) {
    std::string pattern = pattern_of(tensor.name);
    if (seen.insert(pattern).second) patterns.emplace_back(std::move(pattern), tensor.name);
  }
  return patterns;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto ends = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(ends.in1 - a.begin());
}

// What a family knows, and how far a model is from it.
struct Candidate {
  const Family* family = nullptr;
  Keys known;  // keys that it reads
  Keys usual;  // keys of its published models
  Keys extra_tensors;
  double distance = 0;
};

// A large number of layers, so that the names of no layer are out of range.
ModelConfig naming_config(const Family& family) {
  ModelConfig config;
  config.family = &family;
  config.num_hidden_layers = 1 << 20;
  config.moe.num_experts = 1 << 20;
  config.num_attention_heads = config.num_key_value_heads = 1;
  return config;
}

void measure(const Keys& keys, std::string_view name, std::string_view own_name, Candidate& c) {
  for (const std::string& key : keys)
    c.distance += c.known.contains(key) ? 0 : 1;
  for (const std::string& key : c.usual)
    c.distance += keys.contains(key) ? 0 : 1;
  // A tensor is part of the computation; many keys are not.
  c.distance += 3.0 * static_cast<double>(c.extra_tensors.size());
  // Names of one maker begin alike: half a key per letter.
  c.distance -= 0.5 * static_cast<double>(common_prefix(name, own_name));
}

std::string listed(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = str("; ", what, ' ');
  for (std::size_t i = 0; i < std::min(names.size(), kMaxListed); ++i)
    text += str(i == 0 ? "" : ", ", formats::printable(names[i]));
  if (names.size() > kMaxListed) text += str(" and ", names.size() - kMaxListed, " more");
  return text;
}

std::vector<std::string> missing_in(const Keys& from, const Keys& in) {
  std::vector<std::string> missing;
  std::ranges::set_difference(from, in, std::back_inserter(missing));
  return missing;
}

std::string describe(const Candidate& closest, const Keys& keys, std::string_view name) {
  std::string differences = listed("has keys", missing_in(keys, closest.known));
  differences += listed("lacks keys", missing_in(closest.usual, keys));
  differences +=
      listed("has tensors", {closest.extra_tensors.begin(), closest.extra_tensors.end()});
  if (differences.empty()) return str("closest is ", name, ", with the same keys");
  return str("closest is ", name, "; differs:", differences.substr(1));
}

Keys keys_of_hf(const Json& config) {
  Keys keys;
  const auto add = [&](const Json& object) {
    for (auto field = object.begin(); field != object.end(); ++field) {
      if (!is_common(field.key()) && !field->is_null()) keys.insert(canonical(field.key()));
    }
  };
  add(config);
  const auto text = config.find("text_config");
  if (text != config.end() && text->is_object()) add(*text);
  return keys;
}

Keys keys_that_hf_reads(const Family& family, const Json& config) {
  std::vector<std::string> ignored;
  Keys keys;
  formats::Fields fields(config, "", ignored);
  fields.log_keys_to(keys);
  ModelConfig out;
  out.family = &family;
  try {
    family.read_hf(fields, out);
  } catch (const Error&) {
    // The keys up to the first invalid value.
  }
  Keys canonical_keys;
  for (const std::string& key : keys)
    canonical_keys.insert(canonical(key));
  return canonical_keys;
}

// Keys that all published models of the family have.
Keys usual_keys(const Family& family, bool is_gguf) {
  Keys usual;
  bool is_first = true;
  for (const Shape& shape : shapes()) {
    const Json json = parse_json(shape.config, std::string(shape.name));
    if (find_family(json.value("model_type", "")) != &family) continue;
    Keys keys = keys_of_hf(json);
    if (is_gguf) {
      keys.clear();
      formats::GgufMetadata metadata;
      write_gguf_config(read_hf_config(json, nullptr, std::string(shape.name)), metadata);
      const std::string prefix = str(family.gguf.architecture, '.');
      for (const auto& [key, value] : metadata.entries()) {
        if (key.starts_with(prefix)) keys.insert(key.substr(prefix.size()));
      }
    }
    if (is_first) usual = keys;
    std::erase_if(usual, [&](const std::string& key) { return !keys.contains(key); });
    is_first = false;
  }
  return usual;
}

const Candidate& closest_of(const std::vector<Candidate>& candidates) {
  return *std::ranges::min_element(candidates, {}, &Candidate::distance);
}

}  // namespace

std::string closest_to_hf(const Json& config, std::span<const formats::TensorInfo> tensors) {
  const Keys keys = keys_of_hf(config);
  const auto type = config.find("model_type");
  const std::string name =
      type != config.end() && type->is_string() ? type->get<std::string>() : "";
  const auto patterns = patterns_of(tensors);
  std::vector<Candidate> candidates;
  for (const Family* family : families()) {
    Candidate candidate{.family = family,
                        .known = keys_that_hf_reads(*family, config),
                        .usual = usual_keys(*family, false),
                        .extra_tensors = {}};
    candidate.known.insert(candidate.usual.begin(), candidate.usual.end());
    const ModelConfig naming = naming_config(*family);
    for (const auto& [pattern, tensor] : patterns) {
      if (to_gguf(naming, tensor).empty()) candidate.extra_tensors.insert(pattern);
    }
    measure(keys, name, family->model_type(), candidate);
    candidates.push_back(std::move(candidate));
  }
  const Candidate& closest = closest_of(candidates);
  return describe(closest, keys, closest.family->model_type());
}

std::string closest_to_gguf(const formats::GgufFields& gguf) {
  Keys keys;
  const std::string prefix = gguf.key("");
  for (const auto& [key, value] : gguf.metadata().entries()) {
    if (key.starts_with(prefix)) keys.insert(key.substr(prefix.size()));
  }
  const auto patterns = patterns_of(gguf.tensors());
  std::vector<Candidate> candidates;
  for (const Family* family : families()) {
    Candidate candidate{
        .family = family, .known = {}, .usual = usual_keys(*family, true), .extra_tensors = {}};
    candidate.known = candidate.usual;
    const ModelConfig naming = naming_config(*family);
    for (const auto& [pattern, tensor] : patterns) {
      if (to_huggingface(naming, tensor).empty()) candidate.extra_tensors.insert(pattern);
    }
    measure(keys, gguf.architecture(), family->gguf.architecture, candidate);
    candidates.push_back(std::move(candidate));
  }
  const Candidate& closest = closest_of(candidates);
  return describe(closest, keys, closest.family->gguf.architecture);
}

}  // namespace graft::models
