// The GPUs of this machine, through libgraft_cuda.so. The program needs neither the CUDA toolkit
// nor a driver: without them there are no GPUs, and `unavailable` says why.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graft/tensor/cuda_abi.h"

namespace graft {

struct GpuList {
  std::vector<cuda_abi::DeviceProperties> gpus;
  std::string unavailable;  // empty when gpus were listed
};

// With GRAFT_VIRTUAL_GPUS=N there are N, however many there are: those of a number above share the
// GPUs, so that a placement over several can be tried on one.
GpuList list_gpus();

// The file that has what GPUs need; empty when there is none.
std::filesystem::path gpu_library();

// Whether libgraft_cuda.so was made together with this program.
bool built_with_cuda();

}  // namespace graft
