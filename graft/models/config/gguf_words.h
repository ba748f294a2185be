// Values of GGUF keys that the reader and the writer share.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "graft/models/config/model_config.h"

namespace graft::models {

// "expert_gating_func"
inline constexpr std::array<std::pair<RouterScoring, std::int64_t>, 3> kGatings = {{
    {RouterScoring::Softmax, 1},
    {RouterScoring::Sigmoid, 2},
    {RouterScoring::SqrtSoftplus, 4},
}};

constexpr std::int64_t gating_number(RouterScoring scoring) {
  return kGatings[static_cast<std::size_t>(scoring)].second;
}

// Files with MLA store a tenth of mscale_all_dim under "rope.scaling.yarn_log_multiplier".
inline constexpr double kYarnLogFactor = 0.1;

// LongRoPE's factors, [rotary_dim / 2] f32.
inline constexpr std::string_view kShortFactors = "rope_factors_short.weight";
inline constexpr std::string_view kLongFactors = "rope_factors_long.weight";

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
