#include "graft/plan/experts/deferral.h"

#include <algorithm>
#include <string>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/ops/builtin_kwargs.h"

namespace graft::plan {
namespace {

// Whether an operator on the CPU computes the experts of decode passes, or its part of them, and
// adds deferred ones.
bool can_defer(const Placement& placement) {
  const ops::OperatorInfo* op =
      placement.host_op != nullptr ? placement.host_op : placement.decode.op;
  return op != nullptr && op->find_kwarg(ops::defer_kwarg().key) != nullptr;
}

}  // namespace

std::int64_t deferred_experts(const Placement& placement) {
  const auto found = placement.kwargs.find(ops::defer_kwarg().key);
  if (found == placement.kwargs.end()) return 0;
  return ops::parse_integer(ops::defer_kwarg(), found->second).value_or(0);
}

void settle_deferral(Plan& plan, Collector& findings) {
  const std::string& key = ops::defer_kwarg().key;
  std::vector<Placement*> experts;  // by layer
  for (Placement& placement : plan.placements) {
    if (placement.module->role == ops::Role::Experts) experts.push_back(&placement);
  }
  for (std::size_t i = 0; i < experts.size(); ++i) {
    Placement& placement = *experts[i];
    const bool is_last = i + 1 == experts.size();
    if (deferred_experts(placement) == 0 ||
        (can_defer(placement) && !is_last && can_defer(*experts[i + 1]))) {
      continue;
    }
    const std::string value = placement.kwargs[key];
    placement.kwargs[key] = "0";
    if (is_last && can_defer(placement)) continue;
    const Placement& cause = can_defer(placement) ? *experts[i + 1] : placement;
    findings.warning(
        placement.rule == nullptr ? 0 : placement.rule->line_of(key),
        str(key, ": ", value, " has no effect: ", cause.module->name, " generates with ",
            cause.decode.op == nullptr ? "no operator" : cause.decode.op->name, " on ",
            to_string(cause.decode.device())),
        placement.module);
  }
}

std::int64_t deferred_experts(const Plan& plan) {
  std::int64_t most = 0;
  for (const Placement& placement : plan.placements)
    most = std::max(most, deferred_experts(placement));
  return most;
}

}  // namespace graft::plan
