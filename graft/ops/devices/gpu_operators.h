// The CUDA library, when GPUs are used: its operators and its measurements.

#pragma once

#include <cstdint>

#include "graft/ops/devices/gpu_measurement.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// The built-in operators; if num_gpus > 0 also those of libgraft_cuda.so. Throws Error when the
// library cannot be loaded.
Registry operators_for(int num_gpus);

// Measures cuda:index in 1 to 3 seconds. Throws Error when the library cannot be loaded or the GPU
// cannot be measured.
GpuMeasurement measure_gpu(std::int32_t index);

}  // namespace graft::ops
