// Validation of sampling parameters against a model.

#pragma once

#include <cstdint>

#include "graft/sampling_params.h"

namespace graft::engine {

using graft::kGreedyTemperature;
using graft::SamplingParams;
using graft::SamplingStep;
using graft::TokenId;

// Throws one Error that lists the invalid parameters.
void validate(const SamplingParams& params, std::int64_t vocab_size);
// What of them concerns the text of tokens: "stop strings"; null: nothing.
const char* what_needs_tokenizer(const SamplingParams& params);

}  // namespace graft::engine
