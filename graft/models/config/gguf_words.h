// Values of GGUF keys that the reader and the writer share.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/models/config/model_config.h"

namespace graft::models {

// "expert_gating_func"
inline constexpr std::int64_t kGatingSoftmax = 1;
inline constexpr std::int64_t kGatingSigmoid = 2;

// Files with MLA store a tenth of mscale_all_dim under "rope.scaling.yarn_log_multiplier".
inline constexpr double kYarnLogFactor = 0.1;

// LongRoPE's factors, [rotary_dim / 2] f32.
inline constexpr std::string_view kShortFactors = "rope_factors_short.weight";
inline constexpr std::string_view kLongFactors = "rope_factors_long.weight";

// Gemma 3: the values of absent keys.
inline constexpr double kGemmaLocalTheta = 10000.0;
inline constexpr std::int64_t kGemmaPeriod = 6;

// query_pre_attn_scalar, which has no key: llama.cpp knows the 27B model by its layers.
inline double gemma_score_divisor(const ModelConfig& config) {
  constexpr std::int64_t kLayersOf27B = 62;
  const bool is_27b = config.num_hidden_layers == kLayersOf27B && config.num_attention_heads > 0;
  return static_cast<double>(is_27b ? config.hidden_size / config.num_attention_heads
                                    : config.head_dim);
}

// "attention.sliding_window_pattern": the last of every `period` layers has no window.
inline std::vector<bool> periodic_windows(std::int64_t period, std::int64_t num_layers) {
  std::vector<bool> windows;
  for (std::int64_t layer = 0; layer < num_layers && num_layers <= 4096; ++layer)
    windows.push_back(period <= 0 || layer % period < period - 1);
  return windows;
}

// "graft.topk_method"
inline constexpr std::array<std::pair<RouterMethod, std::string_view>, 3> kRouterMethods = {{
    {RouterMethod::Greedy, "greedy"},
    {RouterMethod::GroupLimitedGreedy, "group_limited_greedy"},
    {RouterMethod::NoauxTc, "noaux_tc"},
}};

// "graft.rope.type": kinds that "rope.scaling.type" cannot name.
inline constexpr std::array<std::pair<RopeKind, std::string_view>, 2> kOwnRopeKinds = {{
    {RopeKind::Dynamic, "dynamic"},
    {RopeKind::Llama3, "llama3"},
}};

}  // namespace graft::models
