// Words that the reader and the writer of GGUF metadata share.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "graft/formats/model_config.h"

namespace graft::formats::keys {

// "expert_gating_func"
inline constexpr std::int64_t kSoftmax = 1;
inline constexpr std::int64_t kSigmoid = 2;

// DeepSeek files store a tenth of mscale_all_dim under "rope.scaling.yarn_log_multiplier".
inline constexpr double kYarnLogFactor = 0.1;

// "graft.topk_method"
inline constexpr std::array<std::pair<TopkMethod, std::string_view>, 3> kTopkMethods = {{
    {TopkMethod::Greedy, "greedy"},
    {TopkMethod::GroupLimitedGreedy, "group_limited_greedy"},
    {TopkMethod::NoauxTc, "noaux_tc"},
}};

// "graft.rope.type": kinds that "rope.scaling.type" has no word for.
inline constexpr std::array<std::pair<RopeKind, std::string_view>, 2> kOwnRopeKinds = {{
    {RopeKind::Dynamic, "dynamic"},
    {RopeKind::Llama3, "llama3"},
}};

constexpr bool is_deepseek(Architecture architecture) {
  return architecture == Architecture::DeepseekV2 || architecture == Architecture::DeepseekV3;
}

}  // namespace graft::formats::keys
