#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/gguf/gguf_fields.h"
#include "graft/models/config/hf_keys.h"

namespace graft::models {
namespace {

using formats::Fields;

constexpr std::array<std::pair<std::string_view, RopeKind>, 7> kKinds = {{
    {"default", RopeKind::Default},
    {"linear", RopeKind::Linear},
    {"dynamic", RopeKind::Dynamic},
    {"llama3", RopeKind::Llama3},
    {"yarn", RopeKind::Yarn},
    {"longrope", RopeKind::LongRope},
    {"su", RopeKind::LongRope},
}};

RopeKind read_kind(const Fields& scaling) {
  const std::string_view key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string name = scaling.text(key, "default");
  for (const auto& [known, kind] : kKinds) {
    if (known == name) return kind;
  }
  scaling.problem(key, name, "default, linear, dynamic, llama3, yarn or longrope");
  return RopeKind::Default;
}

void read_yarn(const Fields& scaling, RopeConfig& rope) {
  rope.beta_fast = scaling.number("beta_fast", rope.beta_fast);
  rope.beta_slow = scaling.number("beta_slow", rope.beta_slow);
  rope.mscale = scaling.number("mscale", 0.0);
  rope.mscale_all_dim = scaling.number("mscale_all_dim", 0.0);
  rope.attention_factor = scaling.number("attention_factor");
  rope.truncate = scaling.boolean("truncate", true);
}

std::vector<float> read_factors(const Fields& scaling, std::string_view key) {
  std::vector<float> factors;
  const Json* list = scaling.find(key);
  const bool is_list = list != nullptr && list->is_array();
  for (std::size_t i = 0; is_list && i < list->size(); ++i) {
    const Json& value = (*list)[i];
    if (!value.is_number()) {
      scaling.problem(key, value, "a list of numbers");
      return {};
    }
    factors.push_back(value.get<float>());
  }
  if (!is_list) scaling.problem(key, list == nullptr ? Json() : *list, "a list of numbers");
  return factors;
}

// `fields` is the object around the scaling: Phi-3 has the original context there.
void read_long_rope(const Fields& fields,
                    const Fields& scaling,
                    const ModelConfig& config,
                    RopeConfig& rope) {
  rope.short_factor = read_factors(scaling, "short_factor");
  rope.long_factor = read_factors(scaling, "long_factor");
  for (const std::string_view key : {"short_mscale", "long_mscale"}) {
    if (const Json* value = scaling.find(key)) scaling.problem(key, *value, "no such key");
  }
  if (rope.original_max_position_embeddings == 0) {
    rope.original_max_position_embeddings =
        fields.integer("original_max_position_embeddings", 0, 1);
  }
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  if (original < 2.0) {
    return scaling.problem("original_max_position_embeddings",
                           rope.original_max_position_embeddings, "an integer above 1");
  }
  const double ratio = static_cast<double>(config.max_position_embeddings) / original;
  const double factor = scaling.number("factor", ratio);
  const double usual = factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
  // As GGUF stores it.
  rope.attention_factor =
      formats::decimal_of_f32(static_cast<float>(scaling.number("attention_factor", usual)));
  rope.factor = 1.0;
}

void read_scaling(const Fields& fields,
                  const Fields& scaling,
                  const ModelConfig& config,
                  RopeConfig& rope) {
  rope.kind = read_kind(scaling);
  if (rope.kind == RopeKind::Default) return;
  rope.factor = scaling.number("factor", 1.0);
  rope.original_max_position_embeddings = scaling.integer("original_max_position_embeddings", 0, 1);
  if (rope.kind == RopeKind::Llama3) {
    rope.low_freq_factor = scaling.number("low_freq_factor", rope.low_freq_factor);
    rope.high_freq_factor = scaling.number("high_freq_factor", rope.high_freq_factor);
  }
  if (rope.kind == RopeKind::LongRope) read_long_rope(fields, scaling, config, rope);
  if (rope.kind == RopeKind::Yarn) {
    read_yarn(scaling, rope);
    // As in transformers: an absent key means max_position_embeddings.
    if (rope.original_max_position_embeddings == 0) {
      rope.original_max_position_embeddings = config.max_position_embeddings;
    }
  }
}

}  // namespace

void read_rope(const Fields& fields, const HfDefaults& defaults, ModelConfig& config) {
  RopeConfig rope;
  rope.theta = fields.number("rope_theta", defaults.rope_theta);
  double partial = fields.number("partial_rotary_factor", defaults.partial_rotary_factor);
  if (fields.has("rope_parameters")) {
    const Fields all = fields.object("rope_parameters");
    // Models with sliding windows may have one set per kind of layer.
    const Fields parameters = all.has("full_attention") ? all.object("full_attention")
                              : all.has("compress")     ? all.object("compress")
                                                        : all;
    rope.theta = parameters.number("rope_theta", rope.theta);
    partial = parameters.number("partial_rotary_factor", partial);
    read_scaling(fields, parameters, config, rope);
  } else if (fields.has("rope_scaling")) {
    read_scaling(fields, fields.object("rope_scaling"), config, rope);
  }
  config.rope = rope;
  if (config.is_mla()) {
    config.rotary_dim = config.mla.qk_rope_head_dim;
  } else if (partial > 0.0 && partial <= 1.0) {
    config.rotary_dim = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * partial);
  } else {
    fields.problem("partial_rotary_factor", partial, "a number above 0, at most 1");
  }
}

}  // namespace graft::models
