// Lists the GPUs of this machine through libgraft_cuda.so. The program starts without the CUDA
// toolkit and driver: then the list is empty and `unavailable` gives the reason.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graft/tensor/cuda_abi.h"
#include "graft/tensor/device.h"

namespace graft {

struct GpuList {
  std::vector<cuda_abi::DeviceProperties> gpus;
  std::string unavailable;  // the reason for an empty list; empty when GPUs were listed
};

// GRAFT_VIRTUAL_GPUS=N raises the count to N on machines with at least one GPU: the extra devices
// share the real ones, so that multi-GPU placements can be tried on one GPU.
GpuList list_gpus();

// The device of `--device NAME`. Throws Error for an unknown name and for a GPU that is not listed.
Device requested_device(const std::string& name, const GpuList& list);

// The path of libgraft_cuda.so; empty when it is not installed.
std::filesystem::path cuda_library_path();

// Whether this build includes libgraft_cuda.so.
bool built_with_cuda();

}  // namespace graft
