// Checks the kwargs of a rule against the operators that it places: unknown keys, values that the
// operators do not accept, and values without an effect.

#pragma once

#include "graft/plan/checks/collector.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules/rules.h"

namespace graft::plan {

// For a module that `rule` placed. The keys of an operator that is not known (null) are not
// checked.
void check_kwargs(const Placement& placement, const Rule& rule, Collector& findings);

}  // namespace graft::plan
