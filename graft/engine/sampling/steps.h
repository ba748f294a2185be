// The steps of SamplingParams::steps in their order, over logits that are masked, biased and
// penalized.

#pragma once

#include <span>
#include <vector>

#include "graft/engine/sampler.h"

namespace graft::engine {

// As distribution() returns it. Requires steps, and a finite largest logit.
std::vector<TokenProb> run_steps(std::span<const float> logits, const SamplingContext& context);

}  // namespace graft::engine
