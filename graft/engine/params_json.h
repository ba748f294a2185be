// Sampling parameters as JSON, one key per field, for saved sequences.

#pragma once

#include "graft/base/text/json.h"
#include "graft/engine/sampling_params.h"

namespace graft::engine {

Json to_json(const SamplingParams& params);
// The inverse of to_json. Throws Json::exception when a key is missing or has the wrong type.
SamplingParams params_from_json(const Json& json);

}  // namespace graft::engine
