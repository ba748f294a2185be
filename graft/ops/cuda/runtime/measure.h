// Measures a GPU for `graft machine`.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/ops/devices/gpu_measurement.h"

namespace graft::ops::cuda {

// Takes 1 to 3 seconds. Allocates and frees up to 1 GiB of GPU memory, less where less than 2 GiB
// are free, and 128 MiB of pinned host memory. Throws Error when a call fails or too little memory
// is free.
GpuMeasurement measure(std::int32_t index);
// measure() as if only this much GPU memory were free.
GpuMeasurement measure_within(std::int32_t index, std::size_t free_bytes);

}  // namespace graft::ops::cuda
