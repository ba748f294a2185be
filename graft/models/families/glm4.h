// What the GLM families share.

#pragma once

#include "graft/models/config/hf_keys.h"
#include "graft/models/families/family.h"

namespace graft::models {

inline constexpr std::array kGlmPreTokenizers = {
    formats::PreTokenizerName{"glm4", "glm4"},
    formats::PreTokenizerName{"chatglm-bpe", "glm4"},
};

}  // namespace graft::models
