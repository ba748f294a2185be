// Tensors of a checkpoint that the model does not use. Some are known to be optional: layers that
// predict further tokens, rotary buffers, vision towers. All others mean that the configuration
// does not describe the files, for example a config.json with fewer layers.

#pragma once

#include <span>
#include <string>
#include <unordered_set>

#include "graft/formats/weight_source.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

// Says that the parts for images and sound are not used; empty for a text model, and for a model
// whose vision tower is.
std::string modality_warning(std::span<const formats::TensorInfo> tensors,
                             const ModelConfig& config);

// What is wrong, in one line that names some of the tensors; empty when nothing is.
std::string unused_tensors_problem(std::span<const formats::TensorInfo> tensors,
                                   const std::unordered_set<const formats::TensorInfo*>& used,
                                   const ModelConfig& config);

}  // namespace graft::models
