// ModelConfig from config.json and generation_config.json. Each family reads its own keys
// (families/family.h); the keys that all families share are read here.

#pragma once

#include <string>

#include "graft/base/text/json.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

// `generation_config` may be null. Throws one Error (subject: `where`) for an unsupported family or
// for all values of the wrong type. The result is validated.
ModelConfig read_hf_config(const Json& config,
                           const Json* generation_config,
                           const std::string& where);

}  // namespace graft::models
