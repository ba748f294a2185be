// What the Qwen families share.

#pragma once

#include "graft/models/config/hf_keys.h"
#include "graft/models/families/family.h"

namespace graft::models {

inline constexpr std::array kQwenPreTokenizers = {
    formats::PreTokenizerName{"qwen2", "qwen2"},
    formats::PreTokenizerName{"deepseek-r1-qwen", "qwen2"},
};

}  // namespace graft::models
