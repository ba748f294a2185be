// Experts on a GPU and the CPU: the CPU holds all of a layer, the GPU keeps copies of some.

#pragma once

#include "graft/plan/plan.h"

namespace graft::plan {

// Applies the kwarg gpu_experts of a placed module, whose value check_kwargs() has checked. `auto`
// stays: perf resolves it when the whole plan is known.
void place_gpu_experts(Placement& placement);

// What is still `auto` becomes 0. Operators read plain integers.
void settle_gpu_experts(Plan& plan);

}  // namespace graft::plan
