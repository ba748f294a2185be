// From a config to the module tree of its model. A family is one file here and one line of
// register.cpp.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graft/formats/model_config.h"
#include "graft/formats/weight_source.h"
#include "graft/models/build.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

struct Family {
  formats::Architecture architecture;
  std::string_view prefix;  // of its class names
  plan::Blueprint (*build)(Builder& build);
};

// Every family this build knows, one row per Architecture.
std::span<const Family> families();

// `source` gives the types of the weights; null, or a bare config: as the family is published.
// No weight is read (but for rope_freqs.weight, which is part of the config in all but place).
// Throws Error for a config that no module of ours can compute.
plan::Blueprint make_blueprint(const formats::ModelConfig& config,
                               const formats::WeightSource* source);

// Weights by their number of values; tied ones count once, scales of FP8 weights not at all.
std::int64_t num_parameters(const plan::Blueprint& blueprint);
// Of the routed experts only as many as one token uses.
std::int64_t num_parameters_per_token(const plan::Blueprint& blueprint);

// The families' files.
plan::Blueprint build_llama(Builder& build);
plan::Blueprint build_mixtral(Builder& build);
plan::Blueprint build_qwen2_moe(Builder& build);
plan::Blueprint build_qwen3_moe(Builder& build);
plan::Blueprint build_qwen2(Builder& build);
plan::Blueprint build_qwen3(Builder& build);
plan::Blueprint build_deepseek(Builder& build);
plan::Blueprint build_glm4_moe(Builder& build);

}  // namespace graft::models
