// Steps of an RMS norm, for all kernels that have one: the same bits in each. A thread has vectors
// of four neighbours.

#pragma once

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

inline constexpr int kNormWarps = 16;  // that share a row, at most
// Two vectors a thread, in whole warps, until there are warps enough.
inline constexpr std::int64_t kColsPerNormWarp = 2 * 4 * kWarp;

// The number of warps decides the order of the sum.
constexpr std::int64_t norm_warps(std::int64_t cols) {
  const std::int64_t warps = ceil_div(cols, kColsPerNormWarp);
  return warps < kNormWarps ? warps : kNormWarps;
}

inline bool in_vectors(ConstRows x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0;
}

// Values [col, col + 4) of a row, 0 past its end. vectors: four can be loaded at once.
__device__ inline float4 load_four(const float* row,
                                   std::int64_t col,
                                   std::int64_t cols,
                                   bool vectors) {
  if (vectors) return col < cols ? *reinterpret_cast<const float4*>(row + col) : float4{0, 0, 0, 0};
  return {col < cols ? row[col] : 0.0F, col + 1 < cols ? row[col + 1] : 0.0F,
          col + 2 < cols ? row[col + 2] : 0.0F, col + 3 < cols ? row[col + 3] : 0.0F};
}

__device__ inline void store_four(
    float* row, std::int64_t col, std::int64_t cols, bool vectors, float4 values) {
  if (col >= cols) return;
  if (vectors) {
    *reinterpret_cast<float4*>(row + col) = values;
    return;
  }
  row[col] = values.x;
  if (col + 1 < cols) row[col + 1] = values.y;
  if (col + 2 < cols) row[col + 2] = values.z;
  if (col + 3 < cols) row[col + 3] = values.w;
}

__device__ inline float add_squares(float sum, float4 v) {
  return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum))));
}

__device__ inline float inverse_rms(float sum_of_squares, std::int64_t cols, float eps) {
  const float mean = sum_of_squares / static_cast<float>(cols);
  return 1.0F / sqrtf(__fadd_rn(mean, eps));
}

__device__ inline float4 normed(float4 v, float factor, float4 weight) {
  return {__fmul_rn(__fmul_rn(v.x, factor), weight.x), __fmul_rn(__fmul_rn(v.y, factor), weight.y),
          __fmul_rn(__fmul_rn(v.z, factor), weight.z), __fmul_rn(__fmul_rn(v.w, factor), weight.w)};
}

}  // namespace graft::kernels::cuda
