// Warns about an `out_device` that the plan does not follow: operators hand their results to the
// module that uses them, so a result is always copied to that module's device.

#pragma once

#include "graft/plan/checks/collector.h"
#include "graft/plan/plan.h"

namespace graft::plan {

// Call when all modules are placed.
void check_out_devices(const Plan& plan, Collector& findings);

}  // namespace graft::plan
