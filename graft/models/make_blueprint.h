// From a configuration to the module tree of its model.

#pragma once

#include <cstdint>

#include "graft/models/checkpoint.h"
#include "graft/models/config/model_config.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

// Types of the weights are those of the family's published checkpoints. Throws Error for a
// configuration that no module can compute.
plan::Blueprint make_blueprint(const ModelConfig& config);
// With the checkpoint's types (when it has tensors). Reads no weight but rope_freqs.weight, which
// belongs to the configuration.
plan::Blueprint make_blueprint(const Checkpoint& checkpoint);

// Number of weight values; tied weights count once, scales of FP8 weights not at all.
std::int64_t num_parameters(const plan::Blueprint& blueprint);
// Of the routed experts only those one token uses.
std::int64_t num_parameters_per_token(const plan::Blueprint& blueprint);

}  // namespace graft::models
