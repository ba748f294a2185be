// Shared by the families with the layers of DeepSeek-V3: multi-head latent attention, routed and
// shared experts.

#pragma once

#include "graft/models/families/common.h"

namespace graft::models {

void read_deepseek(const formats::Fields& fields,
                   const HfDefaults& defaults,
                   const HfMoeDefaults& moe_defaults,
                   ModelConfig& config);

plan::Blueprint build_deepseek(Builder& build);

}  // namespace graft::models
