#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "graft/models/config/hf_keys.h"

namespace graft::models {
namespace {

using formats::Fields;

constexpr std::array<std::pair<std::string_view, RopeKind>, 5> kKinds = {{
    {"default", RopeKind::Default},
    {"linear", RopeKind::Linear},
    {"dynamic", RopeKind::Dynamic},
    {"llama3", RopeKind::Llama3},
    {"yarn", RopeKind::Yarn},
}};

RopeKind read_kind(const Fields& scaling) {
  const std::string_view key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string name = scaling.text(key, "default");
  for (const auto& [known, kind] : kKinds) {
    if (known == name) return kind;
  }
  scaling.problem(key, name, "default, linear, dynamic, llama3 or yarn");
  return RopeKind::Default;
}

void read_yarn(const Fields& scaling, RopeConfig& rope) {
  rope.beta_fast = scaling.number("beta_fast", rope.beta_fast);
  rope.beta_slow = scaling.number("beta_slow", rope.beta_slow);
  rope.mscale = scaling.number("mscale", 0.0);
  rope.mscale_all_dim = scaling.number("mscale_all_dim", 0.0);
  rope.attention_factor = scaling.number("attention_factor");
  if (!scaling.boolean("truncate", true)) {
    scaling.problem("truncate", false, "true: fractional correction borders are not supported");
  }
}

void read_scaling(const Fields& scaling, const ModelConfig& config, RopeConfig& rope) {
  rope.kind = read_kind(scaling);
  if (rope.kind == RopeKind::Default) return;
  rope.factor = scaling.number("factor", 1.0);
  rope.original_max_position_embeddings = scaling.integer("original_max_position_embeddings", 0, 1);
  if (rope.kind == RopeKind::Llama3) {
    rope.low_freq_factor = scaling.number("low_freq_factor", rope.low_freq_factor);
    rope.high_freq_factor = scaling.number("high_freq_factor", rope.high_freq_factor);
  }
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
    const Fields parameters = all.has("full_attention") ? all.object("full_attention") : all;
    rope.theta = parameters.number("rope_theta", rope.theta);
    partial = parameters.number("partial_rotary_factor", partial);
    read_scaling(parameters, config, rope);
  } else if (fields.has("rope_scaling")) {
    read_scaling(fields.object("rope_scaling"), config, rope);
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
