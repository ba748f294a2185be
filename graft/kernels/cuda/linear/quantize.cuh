// Floats to bytes with a step for each group, as gemv_q8 takes them.

#pragma once

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

inline constexpr int kGroup = 32;  // values that share a step

__device__ inline float step_of(float largest) {
  return largest / 127.0F;
}

__device__ inline int code_of(float value, float largest, float step) {
  return largest > 0.0F ? __float2int_rn(value / step) : 0;
}

// Step, and step times the sum of the codes.
__device__ inline float2 scale_of(float step, int sum) {
  return make_float2(step, step * static_cast<float>(sum));
}

}  // namespace graft::kernels::cuda
