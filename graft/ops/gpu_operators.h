// Operators for a machine with GPUs.

#pragma once

#include "graft/ops/registry.h"

namespace graft::ops {

// What is compiled in; with GPUs also what libgraft_cuda.so has. Throws Error when that cannot be
// loaded.
Registry operators_for(int num_gpus);

}  // namespace graft::ops
