// config.json and generation_config.json of a Hugging Face checkpoint, in the classic form
// (rope_theta, rope_scaling) and the newer one (rope_parameters). An absent key means what it means
// to transformers: the default of that family's configuration class.

#pragma once

#include <string>

#include "graft/base/text/json.h"
#include "graft/formats/model_config.h"

namespace graft::formats {

// `generation_config` may be null. Throws Error (subject: `where`) for a family that is not
// supported and for values of the wrong kind, all of them at once. The result was validated.
ModelConfig read_hf_config(const Json& config,
                           const Json* generation_config,
                           const std::string& where);

}  // namespace graft::formats
