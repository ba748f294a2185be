// Building blocks of RMS norm, bit-identical in every kernel that uses them. A thread holds float4
// vectors of adjacent columns.

#pragma once

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {

inline constexpr int kMaxNormWarps = 16;  // per row
// Two float4 vectors per thread, until kMaxNormWarps is reached.
inline constexpr std::int64_t kColsPerNormWarp = 2 * 4 * kWarpSize;

// The number of warps determines the summation order, so it depends on cols only.
constexpr std::int64_t norm_warps(std::int64_t cols) {
  const std::int64_t warps = ceil_div(cols, kColsPerNormWarp);
  return warps < kMaxNormWarps ? warps : kMaxNormWarps;
}

inline bool is_float4_aligned(ConstRows x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0;
}

// Values [col, col + 4) of a row, 0 past its end. vectors: the row is aligned for float4 loads.
__device__ inline float4 load_float4(const float* row,
                                     std::int64_t col,
                                     std::int64_t cols,
                                     bool vectors) {
  if (vectors) return col < cols ? *reinterpret_cast<const float4*>(row + col) : float4{0, 0, 0, 0};
  return {col < cols ? row[col] : 0.0F, col + 1 < cols ? row[col + 1] : 0.0F,
          col + 2 < cols ? row[col + 2] : 0.0F, col + 3 < cols ? row[col + 3] : 0.0F};
}

__device__ inline void store_float4(
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

__device__ inline float4 normalized(float4 v, float factor, float4 weight) {
  return {__fmul_rn(__fmul_rn(v.x, factor), weight.x), __fmul_rn(__fmul_rn(v.y, factor), weight.y),
          __fmul_rn(__fmul_rn(v.z, factor), weight.z), __fmul_rn(__fmul_rn(v.w, factor), weight.w)};
}

}  // namespace graft::kernels::cuda
