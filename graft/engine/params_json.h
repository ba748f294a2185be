// Sampling parameters as JSON, under their own names: for saved sequences.

#pragma once

#include "graft/base/text/json.h"
#include "graft/engine/sampling_params.h"

namespace graft::engine {

Json to_json(const SamplingParams& params);
// Of what to_json wrote. Throws Json::exception for anything else.
SamplingParams params_from_json(const Json& json);

}  // namespace graft::engine
