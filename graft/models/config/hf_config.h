// ModelConfig from config.json and generation_config.json. Each family reads its own keys
// (families/family.h); the keys that all families share are read here.

#pragma once

#include <span>
#include <string>

#include "graft/base/text/json.h"
#include "graft/formats/weight_source.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

// `generation_config` may be null. Throws one Error (subject: `where`) for an unsupported family,
// with the closest one, or for all values of the wrong type. The result is validated. `tensors`
// are those of the checkpoint, for that message.
ModelConfig read_hf_config(const Json& config,
                           const Json* generation_config,
                           const std::string& where,
                           std::span<const formats::TensorInfo> tensors = {});

// The end tokens and sampling defaults of a generation_config.json, over those of `config`. Throws
// Error for values of the wrong type.
void read_generation_config(const Json& generation_config,
                            const std::string& where,
                            ModelConfig& config);

// preprocessor_config.json of a model with a vision tower, into config.vision. Throws Error for
// settings that are not supported, and for images of another size than the tower's.
void read_preprocessor(const Json& preprocessor, const std::string& where, ModelConfig& config);

}  // namespace graft::models
