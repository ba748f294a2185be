// Expert deferral in a plan: which layers can add their experts in the next layer.

#pragma once

#include <cstdint>

#include "graft/plan/checks/collector.h"
#include "graft/plan/plan.h"

namespace graft::plan {

// Sets `defer` to 0 for the last experts of the model and, with a warning, for those that a GPU
// computes in decode or whose next layer cannot add them. Call when all modules are placed.
void settle_deferral(Plan& plan, Collector& findings);

// The experts of a token that are added in the next layer.
std::int64_t deferred_experts(const Placement& placement);
// The most of any layer.
std::int64_t deferred_experts(const Plan& plan);

}  // namespace graft::plan
