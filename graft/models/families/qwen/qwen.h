// Shared by the Qwen families.

#pragma once

#include "graft/models/families/common.h"

namespace graft::models {

inline constexpr std::array kQwenPreTokenizers = {
    formats::PreTokenizerName{"qwen2", "qwen2"},
    formats::PreTokenizerName{"deepseek-r1-qwen", "qwen2"},
};

// Sizes, attention and window of Qwen2 and Qwen3, with or without experts: all but experts and
// RoPE.
void read_qwen2_attention(const formats::Fields& fields,
                          const HfDefaults& defaults,
                          ModelConfig& config);
void read_qwen3_attention(const formats::Fields& fields,
                          const HfDefaults& defaults,
                          std::int64_t default_max_window_layers,
                          ModelConfig& config);

}  // namespace graft::models
