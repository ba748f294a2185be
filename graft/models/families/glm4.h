// What the GLM families share.

#pragma once

#include "graft/models/families/common.h"

namespace graft::models {

inline constexpr std::array kGlmPreTokenizers = {
    formats::PreTokenizerName{"glm4", "glm4"},
    formats::PreTokenizerName{"chatglm-bpe", "glm4"},
};

// [gMASK] may be the bos_token, so a template is known by <sop>.
inline constexpr formats::PromptPrefix kGlmPrefix = {.text = "[gMASK]<sop>", .token = "<sop>"};

}  // namespace graft::models
