#include "graft/plan/rules/stream_from.h"

#include <string>

#include "graft/ops/builtin_kwargs.h"

namespace graft::plan {
namespace {

int line_of_threshold(const Placement& placement) {
  return placement.rule == nullptr ? 0 : placement.rule->line_of(std::string(kPrefillThreshold));
}

// The tokens of a threshold; 0: none. Any other text is an error.
std::int64_t read_threshold(const Placement& placement, Collector& findings) {
  const auto found = placement.kwargs.find(kPrefillThreshold);
  if (found == placement.kwargs.end() || found->second == "0") return 0;
  const auto tokens = ops::parse_integer(ops::stream_from_kwarg(), found->second);
  if (tokens) return *tokens;
  findings.error(line_of_threshold(placement),
                 str(kPrefillThreshold, " is '", found->second, "', expected 0 or ",
                     ops::values_text(ops::stream_from_kwarg())));
  return 0;
}

}  // namespace

std::int64_t stream_from(const Placement& placement) {
  if (placement.host_op == nullptr) return 0;
  const ops::Kwarg& kwarg = ops::stream_from_kwarg();
  return ops::parse_integer(kwarg, ops::text_or_fallback(kwarg, placement.kwargs)).value_or(1);
}

std::int64_t stream_from(const Plan& plan) {
  std::int64_t least = 0;
  for (const Placement& placement : plan.placements) {
    const std::int64_t tokens = stream_from(placement);
    if (tokens > 0 && (least == 0 || tokens < least)) least = tokens;
  }
  return least;
}

void apply_prefill_threshold(Plan& plan, Collector& findings) {
  for (const Placement& model : plan.placements) {
    if (model.module->role != ops::Role::Model) continue;
    const std::int64_t tokens = read_threshold(model, findings);
    if (tokens == 0) continue;
    bool has_streamed = false;
    for (Placement& placement : plan.placements) {
      if (stream_from(placement) == 0) continue;
      has_streamed = true;
      placement.kwargs.try_emplace(ops::stream_from_kwarg().key, std::to_string(tokens));
    }
    if (has_streamed) continue;
    findings.warning(line_of_threshold(model),
                     str(kPrefillThreshold, ": ", tokens,
                         " has no effect: no experts decode on the CPU and prefill on a GPU"));
  }
}

}  // namespace graft::plan
