// Quantization of f32 to int8 with one scale per group, as gemv_q8 reads it.

#pragma once

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

inline constexpr int kQ8GroupSize = 32;  // values per scale

// Scale of a group whose largest magnitude is max_abs.
__device__ inline float q8_scale(float max_abs) {
  return max_abs / 127.0F;
}

__device__ inline int quantize_q8(float value, float max_abs, float scale) {
  return max_abs > 0.0F ? __float2int_rn(value / scale) : 0;
}

// The two floats stored per group: the scale, and the scale times the sum of the codes, which
// formats with an offset or minimum multiply with it.
__device__ inline float2 q8_scale_and_sum(float scale, int sum) {
  return make_float2(scale, scale * static_cast<float>(sum));
}

}  // namespace graft::kernels::cuda
