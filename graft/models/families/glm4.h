// Shared by the GLM families.

#pragma once

#include "graft/models/families/common.h"

namespace graft::models {

inline constexpr std::array kGlmPreTokenizers = {
    formats::PreTokenizerName{"glm4", "glm4"},
    formats::PreTokenizerName{"chatglm-bpe", "glm4"},
};

// [gMASK] may be the bos_token, so <sop> identifies templates that write the prefix.
inline constexpr formats::PromptPrefix kGlmPrefix = {.text = "[gMASK]<sop>", .token = "<sop>"};

}  // namespace graft::models
