// Writes rows in the layout of PanelRows (panel_rows.h).

#pragma once

#include <cuda_fp16.h>

#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/linear/panel_rows.h"
#include "graft/kernels/cuda/linear/row_scale.cuh"

namespace graft::kernels::cuda {

inline constexpr int kPanelStepCols = 128;
inline constexpr int kPanelStepBlocks = 4;
inline constexpr int kPanelRowHalves = kPanelStepCols;  // of a row per step

// Stores columns col .. col + 3 of a row, col % 4 = 0.
__device__ inline void store_panel_quad(
    const PanelRows& out, int row, int col, float4 v, float inverse) {
  const int t = col % kPanelStepCols / 32;
  const int quad = col % 32 / 4;
  const int q = (quad % 4 + 4 - t) % 4 ^ row % 2;
  Half* to = out.values + (std::int64_t{col / kPanelStepCols} * out.rows + row) * kPanelRowHalves +
             q * 32 + t * 8 + quad / 4 * 4;
  const __half2 even = __floats2half2_rn(v.x * inverse, v.z * inverse);
  const __half2 odd = __floats2half2_rn(v.y * inverse, v.w * inverse);
  *reinterpret_cast<uint2*>(to) = make_uint2(reinterpret_cast<const std::uint32_t&>(even),
                                             reinterpret_cast<const std::uint32_t&>(odd));
}

__device__ inline float max_abs_of(float max_abs, float4 v) {
  return fmaxf(fmaxf(fmaxf(max_abs, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
}

// The largest value of the thread block. All threads must call it.
__device__ inline float block_max(float value) {
  __shared__ float warp_maxima[kWarpSize];
  value = warp_max(value);
  if (threadIdx.x % kWarpSize == 0) warp_maxima[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  const int num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  for (int i = 0; i < num_warps; ++i)
    value = fmaxf(value, warp_maxima[i]);
  return value;
}

// Columns of a row that a thread block stores: `first` and `end` are multiples of 4; columns from
// `cols` on are padding.
struct PanelRowPart {
  int row = 0;
  int first = 0;
  int end = 0;
  int cols = 0;
};

__host__ __device__ constexpr int padded_panel_cols(std::int64_t cols) {
  return static_cast<int>((cols + kPanelStepCols - 1) / kPanelStepCols * kPanelStepCols);
}

// A thread block stores a part of a row, of which the thread holds `vectors` at columns first + 4
// (threadIdx.x + i blockDim.x). `rest(col)`: columns beyond those. `max_of(value)`: the largest
// value of all threads that store parts of the row.
template <int kVectors, class Rest, class MaxOf>
__device__ void store_panel_row(const PanelRows& out,
                                const PanelRowPart& part,
                                const float4 (&vectors)[kVectors],
                                const Rest& rest,
                                const MaxOf& max_of) {
  const int step = 4 * static_cast<int>(blockDim.x);
  const int first = part.first + 4 * static_cast<int>(threadIdx.x);
  const int end = part.end < part.cols ? part.end : part.cols;
  float max_abs = 0.0F;
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i)
    if (first + i * step < end) max_abs = max_abs_of(max_abs, vectors[i]);
  for (int col = first + kVectors * step; col < end; col += step)
    max_abs = max_abs_of(max_abs, rest(col));
  const std::uint32_t exponent = scale_exponent(max_of(max_abs));
  const float inverse = power_of_two(2 * kExponentBias - exponent);
  constexpr float4 kZeros = {0, 0, 0, 0};
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const int col = first + i * step;
    if (col < part.end)
      store_panel_quad(out, part.row, col, col < end ? vectors[i] : kZeros, inverse);
  }
  for (int col = first + kVectors * step; col < part.end; col += step)
    store_panel_quad(out, part.row, col, col < end ? rest(col) : kZeros, inverse);
  if (first == 0) out.scales[part.row] = power_of_two(exponent);
}

}  // namespace graft::kernels::cuda
