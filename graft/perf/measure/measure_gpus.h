// Measures the GPUs of this machine through libgraft_cuda.so.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graft/ops/devices/gpu_operators.h"
#include "graft/perf/machine.h"
#include "graft/tensor/gpus.h"

namespace graft::perf {

struct MeasuredGpus {
  std::vector<GpuFigures> gpus;  // cuda:0, cuda:1, …; empty without GPUs or after an error
  std::string error;             // "cuda:1: …": why a GPU could not be measured
};

// Takes 1 to 3 seconds per GPU. Tests replace `measure`.
MeasuredGpus measure_gpus(
    const GpuList& list,
    const std::function<ops::GpuMeasurement(std::int32_t index)>& measure = ops::measure_gpu);

}  // namespace graft::perf
