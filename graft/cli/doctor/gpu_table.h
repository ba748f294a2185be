// The GPUs that `graft machine` measured, as a table.

#pragma once

#include <string>
#include <vector>

#include "graft/perf/machine.h"

namespace graft::cli {

// A header and a row per GPU; "" without GPUs. H2D and D2H are copies between the GPU and pinned
// host memory.
std::string gpu_table(const std::vector<perf::GpuFigures>& gpus);

}  // namespace graft::cli
