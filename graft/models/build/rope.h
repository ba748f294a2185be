// Frequencies of the rotary embedding for every kind of RoPE scaling.

#pragma once

#include <span>

#include "graft/models/config/model_config.h"
#include "graft/ops/params.h"

namespace graft::models {

// YaRN's attention factor for a context extended by `factor`: 0.1 * mscale * ln(factor) + 1.
double yarn_mscale(double factor, double mscale);

// `freq_factors` is GGUF's rope_freqs.weight, rotary_dim / 2 divisors; empty: none.
ops::RopeParams make_rope(const ModelConfig& config, std::span<const float> freq_factors);
// Of layers with a sliding window, where they have a base of their own (local_rope_theta).
ops::RopeParams make_local_rope(const ModelConfig& config);

}  // namespace graft::models
