// The weight types that a model would have after `graft quantize`, for plans without the file.

#pragma once

#include <string_view>

#include "graft/convert/mix.h"
#include "graft/models/config/model_config.h"
#include "graft/plan/blueprint.h"

namespace graft::convert {

// A mix ("Q4_K_M"), else one quantized or 8-bit float type for all matrices but the head ("IQ2_XS",
// "F8_E4M3"). Ignores case.
// Throws Error that lists the mixes.
Mix mix_or_type(std::string_view name);

// Sets the types that the GGUF file of the mix has after loading, for FP8 those of a published
// checkpoint, and removes the scales of FP8 weights.
void set_types(plan::Blueprint& blueprint, const models::ModelConfig& config, const Mix& mix);

}  // namespace graft::convert
