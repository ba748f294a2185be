// Makes the module tree of a model from its configuration.

#pragma once

#include <cstdint>

#include "graft/models/config/model_config.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

// Weights have the types of the family's published checkpoints. Throws Error for an unsupported
// configuration.
plan::Blueprint make_blueprint(const ModelConfig& config);
// Weights have the types of the checkpoint when it has tensors. Reads no weight data except
// rope_freqs.weight, which is part of the RoPE configuration.
plan::Blueprint make_blueprint(const Checkpoint& checkpoint);

// Number of weight values; tied weights count once, scales of FP8 weights do not count.
std::int64_t num_parameters(const plan::Blueprint& blueprint);
// Counts only the routed experts that one token uses.
std::int64_t num_parameters_per_token(const plan::Blueprint& blueprint);

}  // namespace graft::models
