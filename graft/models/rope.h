// Frequencies of the rotary embedding, for every way of stretching them that a config can name.

#pragma once

#include <span>

#include "graft/models/config/model_config.h"
#include "graft/ops/params.h"

namespace graft::models {

// YaRN's magnitude for a context stretched by `factor`: 0.1 * mscale * ln(factor) + 1.
double yarn_mscale(double factor, double mscale);

// `freq_factors` is what GGUF's rope_freqs.weight holds, rotary_dim / 2 divisors; empty: none.
ops::RopeParams make_rope(const ModelConfig& config, std::span<const float> freq_factors);

}  // namespace graft::models
