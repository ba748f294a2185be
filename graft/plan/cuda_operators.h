// The names, roles and kwargs of the operators of libgraft_cuda.so, so that rules for GPUs can be
// planned and checked on a machine without the library, a driver or a GPU.

#pragma once

#include "graft/ops/registry.h"

namespace graft::plan {

// Adds operators that can be planned but not run: they have no factory. The registry must not have
// those of the library. tests/gpu compares both.
void add_planned_cuda_operators(ops::Registry& registry);

}  // namespace graft::plan
