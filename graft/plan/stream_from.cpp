#include <algorithm>
#include <charconv>

#include "graft/ops/expert_store.h"
#include "graft/plan/plan.h"

namespace graft::plan {

std::int64_t stream_from(const Placement& placement) {
  const bool is_streamed = placement.module->role == ops::Role::Experts &&
                           placement.decode.device() == kCpu && placement.prefill.device() != kCpu;
  if (!is_streamed) return 0;
  const auto found = placement.kwargs.find("stream_from");
  std::int64_t value = ops::kDefaultStreamFrom;
  if (found != placement.kwargs.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return std::max<std::int64_t>(value, 1);
}

std::int64_t stream_from(const Plan& plan) {
  std::int64_t least = 0;
  for (const Placement& placement : plan.placements) {
    const std::int64_t tokens = stream_from(placement);
    if (tokens > 0 && (least == 0 || tokens < least)) least = tokens;
  }
  return least;
}

}  // namespace graft::plan
