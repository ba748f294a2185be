// The GPUs of this machine, through libgraft_cuda.so. The program needs neither the CUDA toolkit
// nor a driver: without them there are no GPUs, and `unavailable` says why.

#pragma once

#include <string>
#include <vector>

#include "graft/tensor/cuda_abi.h"

namespace graft {

struct GpuList {
  std::vector<cuda::DeviceProperties> gpus;
  std::string unavailable;  // empty when gpus were listed
};

GpuList list_gpus();

// Whether libgraft_cuda.so was made together with this program.
bool built_with_cuda();

}  // namespace graft
