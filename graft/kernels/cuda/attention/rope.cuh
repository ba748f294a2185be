// RoPE device functions, bit-identical in every kernel that rotates.

#pragma once

#include "graft/kernels/cuda/attention/rope.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

// Dynamic NTK: position p uses the context length p + 1, so that a key does not depend on how the
// prompt was chunked.
__device__ inline float dynamic_ntk_frequency(const RopeConfig& rope,
                                              std::int64_t position,
                                              std::int64_t i) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto len = static_cast<double>(position + 1);
  const double ntk_factor =
      rope.factor * len / static_cast<double>(rope.max_position_embeddings) - (rope.factor - 1.0);
  const double theta = rope.theta * pow(ntk_factor, dim / (dim - 2.0));
  return static_cast<float>(1.0 / pow(theta, static_cast<double>(2 * i) / dim));
}

__device__ inline float frequency(const RopeConfig& rope, std::int64_t position, int i) {
  if (rope.dynamic && position + 1 > rope.max_position_embeddings) {
    return dynamic_ntk_frequency(rope, position, i);
  }
  return rope.inv_freq[i];
}

__device__ inline bool is_long(const RopeConfig& rope, std::int32_t position) {
  return rope.long_inv_freq != nullptr && (position & rope.long_flag) != 0;
}

// cos_sin[2 * half] = the cosines of the row's angles, then the sines; all threads of the block
// call it. The position may have the bit long_flag set.
__device__ inline void compute_cos_sin(const RopeConfig& rope,
                                       std::int32_t flagged_position,
                                       int half,
                                       float* cos_sin) {
  const bool uses_long = is_long(rope, flagged_position);
  const std::int64_t position = uses_long ? flagged_position - rope.long_flag : flagged_position;
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * half; i += static_cast<int>(blockDim.x)) {
    const float inv_freq =
        uses_long ? rope.long_inv_freq[i % half] : frequency(rope, position, i % half);
    // The angle is rounded to f32 as in the models' training code; its cosine is computed in f64.
    const double angle = __fmul_rn(static_cast<float>(position), inv_freq);
    const double value = i < half ? cos(angle) : sin(angle);
    cos_sin[i] = __fmul_rn(static_cast<float>(value), rope.magnitude);
  }
}

// Offsets of the two values of pair i in a head.
__device__ inline int first_of_pair(const RopeConfig& rope, int i) {
  return rope.interleaved ? 2 * i : i;
}

__device__ inline int second_of_pair(const RopeConfig& rope, int i, int half) {
  return rope.interleaved ? 2 * i + 1 : i + half;
}

// Multiplications and additions are not fused, as on the CPU.
__device__ inline float2 rotate_pair(float a, float b, float cosine, float sine) {
  return make_float2(__fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine)),
                     __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine)));
}

}  // namespace graft::kernels::cuda
