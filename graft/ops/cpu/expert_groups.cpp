#include "graft/ops/cpu/expert_groups.h"

#include "graft/base/check.h"

namespace graft::ops::cpu {

void ExpertGroups::sort(std::span<const std::int32_t> expert_ids,
                        std::int64_t top_k,
                        std::int64_t num_experts) {
  next_.assign(static_cast<std::size_t>(num_experts) + 1, 0);
  for (const std::int32_t id : expert_ids) {
    GRAFT_CHECK(id < num_experts, "expert id ", id, " of ", num_experts, " experts");
    if (id >= 0) ++next_[static_cast<std::size_t>(id) + 1];
  }
  groups.clear();
  for (std::size_t e = 0; e < static_cast<std::size_t>(num_experts); ++e) {
    next_[e + 1] += next_[e];
    if (next_[e + 1] > next_[e]) {
      groups.push_back(
          {.expert = static_cast<std::int64_t>(e), .begin = next_[e], .end = next_[e + 1]});
    }
  }
  token_of.resize(static_cast<std::size_t>(next_.back()));
  pair_of.assign(expert_ids.size(), -1);
  for (std::size_t i = 0; i < expert_ids.size(); ++i) {
    if (expert_ids[i] < 0) continue;
    const std::int64_t pair = next_[static_cast<std::size_t>(expert_ids[i])]++;
    token_of[static_cast<std::size_t>(pair)] = static_cast<std::int64_t>(i) / top_k;
    pair_of[i] = pair;
  }
}

}  // namespace graft::ops::cpu
