// Writes rows in the layout of PanelRows (panel_rows.h).

#pragma once

#include <cuda_fp16.h>

#include "graft/kernels/cuda/formats/panel_operands.cuh"
#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/linear/panels/panel_rows.h"
#include "graft/kernels/cuda/linear/row_scale.cuh"

namespace graft::kernels::cuda {

inline constexpr int kPanelRowHalves = kPanelStepCols;  // values of a row per step
inline constexpr int kPanelRowSums = 16;                // halves of sums of a row per step

// The values and the sums of a row in a step.
__device__ inline Half* panel_values(const PanelRows& x, int step, int row) {
  return x.values + step * x.rows * (kPanelRowHalves + kPanelRowSums) +
         std::int64_t{row} * kPanelRowHalves;
}
__device__ inline Half* panel_sums(const PanelRows& x, int step, int row) {
  return panel_values(x, step, 0) + x.rows * kPanelRowHalves + std::int64_t{row} * kPanelRowSums;
}

__device__ inline std::int32_t* panel_counters(const PanelRows& rows) {
  const auto scales = (rows.rows + 63) / 64 * 64;
  return reinterpret_cast<std::int32_t*>(rows.scales + scales);
}

// Stores columns col .. col + 3 of a row, col % 4 = 0. The lanes of a quad, which have 16 columns
// together, call it at the same time.
__device__ inline void store_panel_quad(
    const PanelRows& out, int row, int col, float4 v, float inverse) {
  const int step = col / kPanelStepCols;
  const int block = col % kPanelStepCols / kPanelBlockCols;
  const int quad = col % kPanelBlockCols / 4;
  const bool is_upper = quad >= 4;
  const float factor = is_upper ? inverse / 16 : inverse;
  const __half2 even = __floats2half2_rn(v.x * factor, v.z * factor);
  const __half2 odd = __floats2half2_rn(v.y * factor, v.w * factor);
  Half* to = panel_values(out, step, row) + (block ^ row % 2) * kPanelBlockCols + quad % 4 * 8 +
             (is_upper ? 4 : 0);
  *reinterpret_cast<uint2*>(to) = make_uint2(reinterpret_cast<const std::uint32_t&>(even),
                                             reinterpret_cast<const std::uint32_t&>(odd));
  const float2 e = __half22float2(even);
  const float2 o = __half22float2(odd);
  const unsigned lanes = 0xfU << (threadIdx.x % kWarpSize / 4 * 4);
  float sum = (e.x + e.y) + (o.x + o.y);
  sum += __shfl_xor_sync(lanes, sum, 1);
  sum += __shfl_xor_sync(lanes, sum, 2);
  if (quad % 4 != 0) return;
  sum = is_upper ? sum * (16 / kPanelSumUnit) : sum / kPanelSumUnit;
  const __half upper = __float2half_rn(sum);
  const __half lower = __float2half_rn(sum - __half2float(upper));
  Half* sums = panel_sums(out, step, row) + block * 4 + (is_upper ? 1 : 0);
  sums[0] = reinterpret_cast<const Half&>(upper);
  sums[2] = reinterpret_cast<const Half&>(lower);
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

// Columns of a row that a thread block stores: `first` and `end` are multiples of 128; columns
// from `cols` on are padding.
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
  if (part.row == 0 && part.first == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < kPanelCounters;
         i += static_cast<int>(blockDim.x))
      panel_counters(out)[i] = 0;
  }
}

}  // namespace graft::kernels::cuda
