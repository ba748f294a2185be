// Cosines, sines and what is done with them, for all kernels that rotate: the same bits in each.

#pragma once

#include "graft/kernels/cuda/attention/rope.h"
#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

// Dynamic NTK: a token at position p counts the p + 1 tokens up to itself, so that its key does not
// depend on how the prompt was cut.
__device__ inline float stretched_frequency(const Rotation& rope,
                                            std::int64_t position,
                                            std::int64_t i) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto len = static_cast<double>(position + 1);
  const double stretch =
      rope.factor * len / static_cast<double>(rope.max_position_embeddings) - (rope.factor - 1.0);
  const double theta = rope.theta * pow(stretch, dim / (dim - 2.0));
  return static_cast<float>(1.0 / pow(theta, static_cast<double>(2 * i) / dim));
}

__device__ inline float frequency(const Rotation& rope, std::int64_t position, int i) {
  if (rope.dynamic && position + 1 > rope.max_position_embeddings) {
    return stretched_frequency(rope, position, i);
  }
  return rope.inv_freq[i];
}

// turns[2 * half]: the cosines of a row's angles, then their sines, by all threads of a block.
__device__ inline void make_turns(const Rotation& rope,
                                  std::int64_t position,
                                  int half,
                                  float* turns) {
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * half; i += static_cast<int>(blockDim.x)) {
    const float inv_freq = frequency(rope, position, i % half);
    // The angle is rounded to float as in the models' training code, its cosine is not.
    const double angle = __fmul_rn(static_cast<float>(position), inv_freq);
    const double turn = i < half ? cos(angle) : sin(angle);
    turns[i] = __fmul_rn(static_cast<float>(turn), rope.magnitude);
  }
}

// The places of pair i in a head.
__device__ inline int first_of_pair(const Rotation& rope, int i) {
  return rope.interleaved ? 2 * i : i;
}

__device__ inline int second_of_pair(const Rotation& rope, int i, int half) {
  return rope.interleaved ? 2 * i + 1 : i + half;
}

// Sums of products, not fused, as on the CPU.
__device__ inline float2 turned(float a, float b, float cosine, float sine) {
  return make_float2(__fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine)),
                     __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine)));
}

}  // namespace graft::kernels::cuda
