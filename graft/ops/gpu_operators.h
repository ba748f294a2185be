// The operator registry, with the CUDA library when GPUs are used.

#pragma once

#include "graft/ops/registry.h"

namespace graft::ops {

// The built-in operators; if num_gpus > 0 also those of libgraft_cuda.so. Throws Error when the
// library cannot be loaded.
Registry operators_for(int num_gpus);

}  // namespace graft::ops
