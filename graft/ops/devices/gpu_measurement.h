// The speeds of one GPU, measured by the library of the device.

#pragma once

namespace graft::ops {

struct GpuMeasurement {
  double read_bytes_per_s = 0;       // from its memory
  double flops = 0;                  // a large product of 16-bit matrices
  double launch_seconds = 0;         // one kernel in a CUDA graph of dependent kernels
  double pcie_bytes_per_s = 0;       // from pinned host memory to the GPU
  double pcie_back_bytes_per_s = 0;  // from the GPU to pinned host memory
};

}  // namespace graft::ops
