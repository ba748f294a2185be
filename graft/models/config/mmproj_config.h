// The vision tower of a GGUF model, from the metadata and the tensors of its mmproj file.

#pragma once

#include <span>
#include <string>

#include "graft/formats/gguf/metadata.h"
#include "graft/formats/weight_source.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

// Sets config.vision and validates it. Throws Error (subject: `where`) for towers other than
// LLaVA's, and for a projector of another model.
void read_mmproj_config(const formats::GgufMetadata& metadata,
                        std::span<const formats::TensorInfo> tensors,
                        const std::string& where,
                        ModelConfig& config);

}  // namespace graft::models
