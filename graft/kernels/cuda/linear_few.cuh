// What the kernels for few rows have in common: a group of warps computes two outputs for up to
// eight rows, so that every value of x that is loaded serves two rows of weights.

#pragma once

#include "graft/kernels/cuda/formats.cuh"
#include "graft/kernels/cuda/linear.h"

namespace graft::cuda {

inline constexpr int kFewThreads = 128;
inline constexpr int kFewWarps = kFewThreads / kWarp;
inline constexpr int kFewOuts = 2;
inline constexpr int kMostFewRows = 8;

// LinearBatch as the kernels take it, for one slice of at most kMostFewRows rows.
struct FewJob {
  const std::uint8_t* data;
  const std::uint8_t* second;
  Scales scales;
  Scales second_scales;
  std::int64_t row_bytes;
  std::int64_t matrix_bytes;
  const std::int32_t* matrix_ids;
  const float* bias;
  std::int64_t batch;
  std::int64_t in;
  std::int64_t out;
  int rows;
  int warps;  // that share an output
  ConstRows x;
  std::int64_t x_batch_stride;
  std::int64_t x_share;
  bool x_vectors;  // rows of x are at multiples of 16 bytes
  Rows y;
  std::int64_t y_batch_stride;
};

// What the group of a warp works on.
struct FewPlace {
  std::int64_t matrix;  // negative: none
  std::int64_t outs[kFewOuts];
  bool has_out[kFewOuts];  // the last group may have one too many, which repeats the last row
  const std::uint8_t* weights[kFewOuts];
  const Scales* scales;
  std::int64_t x_product;  // whose rows of x
  float* y;
  int part;  // which of the group's warps
  int lane;
};

__device__ inline FewPlace few_place(const FewJob& job) {
  FewPlace place;
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  place.lane = static_cast<int>(threadIdx.x) % kWarp;
  place.part = warp % job.warps;
  const std::int64_t product = blockIdx.y;
  const bool is_second = product >= job.batch;
  const std::int64_t item = is_second ? product - job.batch : product;
  place.matrix = job.matrix_ids != nullptr ? job.matrix_ids[item] : item;
  place.scales = is_second ? &job.second_scales : &job.scales;
  place.x_product = item / job.x_share;
  place.y = job.y.data + product * job.y_batch_stride;
  const int groups = kFewWarps / job.warps;
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * groups + warp / job.warps;
  const std::uint8_t* matrix = (is_second ? job.second : job.data) +
                               (place.matrix < 0 ? 0 : place.matrix) * job.matrix_bytes;
  GRAFT_UNROLL
  for (int o = 0; o < kFewOuts; ++o) {
    const std::int64_t out = group * kFewOuts + o;
    place.has_out[o] = out < job.out;
    place.outs[o] = place.has_out[o] ? out : job.out - 1;
    place.weights[o] = matrix + place.outs[o] * job.row_bytes;
  }
  return place;
}

// Adds up the lanes, then the warps in ascending order, and writes the outputs.
template <int kRows>
__device__ void write_few(const FewJob& job,
                          const FewPlace& place,
                          float (&sums)[kFewOuts][kRows]) {
  __shared__ float parts[kFewWarps][kFewOuts * kRows];
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  GRAFT_UNROLL
  for (int o = 0; o < kFewOuts; ++o) {
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float sum = warp_sum(sums[o][r]);
      if (place.lane == 0) parts[warp][o * kRows + r] = sum;
    }
  }
  __syncthreads();
  if (place.part != 0) return;
  for (int item = place.lane; item < kFewOuts * kRows; item += kWarp) {
    const int o = item / kRows;
    const int r = item % kRows;
    if (r >= job.rows || !(o == 0 ? place.has_out[0] : place.has_out[1])) continue;
    const std::int64_t out = o == 0 ? place.outs[0] : place.outs[1];
    float sum = 0.0F;
    for (int part = 0; part < job.warps; ++part)
      sum += parts[warp + part][item];
    if (place.matrix < 0) sum = 0.0F;
    if (job.bias != nullptr) sum += job.bias[out];
    place.y[r * job.y.stride + out] = sum;
  }
}

// The launch for some rows of a batch of products. Fills in all but the function.
struct FewLaunch {
  FewJob job;
  dim3 grid;
};
FewLaunch few_launch(const LinearBatch& products,
                     std::int64_t first_row,
                     std::int64_t rows,
                     std::int64_t values_per_warp);

}  // namespace graft::cuda
