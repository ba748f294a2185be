// Shared by the GEMV kernels: y[rows, out] for up to 8 rows of x. A group of 1, 2 or 4 warps
// computes kGemvOuts outputs for all rows, so that every loaded x value is used for as many weight
// rows; the group's warps interleave the columns and are summed at the end.
//
//    block    4 warps = 4, 2 or 1 groups of kGemvOuts outputs (2, or 4 for 4 and more rows)
//    grid.x   blocks of outputs, of all grouped matrices one after the other
//    grid.y   products (or RowTiles) of the first stack, then of the second

#pragma once

#include "graft/kernels/cuda/formats/formats.cuh"
#include "graft/kernels/cuda/linear/linear.h"

namespace graft::kernels::cuda {

inline constexpr int kGemvThreads = 128;
inline constexpr int kGemvWarps = kGemvThreads / kWarpSize;
// Minimum resident blocks per SM, for enough loads in flight. Without it the compiler uses too many
// registers for 8 rows of Q5_K.
inline constexpr int kGemvMinBlocks = 3;
inline constexpr int kMaxGemvRows = 8;
static_assert(kMaxGemvRows == kGemvTileRows);

// Outputs per group: more rows mean more x traffic per weight, so it is shared by more outputs.
template <int kRows>
inline constexpr int kGemvOuts = kRows >= 4 ? 4 : 2;

// One of the matrices that a launch multiplies with the same rows.
struct GemvMatrix {
  const std::uint8_t* data;
  const float* bias;
  Rows y;
  std::int64_t out;
  int warps_log2;        // 2^warps_log2 warps compute one output
  unsigned first_block;  // in grid.x
};

// LinearBatch in kernel form, for at most kMaxGemvRows rows.
struct GemvJob {
  GemvMatrix matrices[kMaxGroupedMatrices];  // more than one only without stacks
  int num_matrices;
  const std::uint8_t* second;
  Scales scales;
  Scales second_scales;
  std::int64_t row_bytes;
  std::int64_t matrix_bytes;
  const std::int32_t* matrix_ids;
  std::int64_t in;
  int batch;
  int rows;
  ConstRows x;
  std::int64_t x_batch_stride;
  int products_per_x;
  bool x_vectors;  // rows of x are 16-byte aligned
  std::int64_t y_batch_stride;
  const RowTile* tiles;  // null: every product has the same rows
  const std::int32_t* row_ids;
};

// What a warp computes.
struct WarpWork {
  std::int64_t stack_idx;  // matrix in the stack; negative: none, the result is 0
  int rows;
  const std::int32_t* row_ids;  // null: consecutive rows
  const std::uint8_t* weights;  // of the matrix
  const Scales* scales;
  std::int64_t x_product;  // x rows start at x_product * x_batch_stride
  float* y;
  int matrix_idx;  // in GemvJob::matrices
  std::int64_t first_out;
  int group_warp;  // index of the warp in its group
  int lane;
};

template <int kOuts>
__device__ WarpWork warp_work(const GemvJob& job) {
  WarpWork work;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  work.lane = static_cast<int>(threadIdx.x) % kWarpSize;
  work.matrix_idx = 0;
  while (work.matrix_idx + 1 < job.num_matrices &&
         blockIdx.x >= job.matrices[work.matrix_idx + 1].first_block)
    ++work.matrix_idx;
  const GemvMatrix& matrix = job.matrices[work.matrix_idx];
  work.group_warp = warp & ((1 << matrix.warps_log2) - 1);
  const auto product = static_cast<int>(blockIdx.y);
  const bool is_second = product >= job.batch;
  const int item = is_second ? product - job.batch : product;
  if (job.tiles != nullptr) {
    const RowTile tile = job.tiles[item];
    work.stack_idx = tile.matrix;
    work.rows = tile.count;
    work.row_ids = job.row_ids + tile.first;
    work.x_product = 0;
    work.y = matrix.y.data + (is_second ? job.y_batch_stride : 0);
  } else {
    work.stack_idx = job.matrix_ids != nullptr ? job.matrix_ids[item] : item;
    work.rows = job.rows;
    work.row_ids = nullptr;
    work.x_product = item / job.products_per_x;
    work.y = matrix.y.data + product * job.y_batch_stride;
  }
  work.scales = is_second ? &job.second_scales : &job.scales;
  work.weights = (is_second ? job.second : matrix.data) +
                 (work.stack_idx < 0 ? 0 : work.stack_idx) * job.matrix_bytes;
  const int groups = kGemvWarps >> matrix.warps_log2;
  work.first_out = (static_cast<std::int64_t>(blockIdx.x - matrix.first_block) * groups +
                    (warp >> matrix.warps_log2)) *
                   kOuts;
  return work;
}

// Weight row of output `o` of the group. The last group may reach past the matrix: it repeats the
// last row, which is not stored.
__device__ inline std::int64_t weight_row(const GemvJob& job, const WarpWork& work, int o) {
  const std::int64_t out = work.first_out + o;
  const std::int64_t end = job.matrices[work.matrix_idx].out;
  return out < end ? out : end - 1;
}

// Rows of x relative to the product's first; past work.rows row 0 is repeated and not stored.
template <int kRows>
__device__ void load_x_rows(const GemvJob& job, const WarpWork& work, int (&rows)[kRows]) {
  GRAFT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int row = r < work.rows ? r : 0;
    rows[r] = work.row_ids == nullptr ? row : work.row_ids[row] / job.products_per_x;
  }
}

// Sums over the lanes, then over the group's warps in ascending order, and stores the outputs.
// Shared memory: warp_sums[4 warps][kOuts * kRows] f32.
template <int kRows>
__device__ void reduce_and_store(const GemvJob& job,
                                 const WarpWork& work,
                                 float (&sums)[kGemvOuts<kRows>][kRows]) {
  const GemvMatrix& matrix = job.matrices[work.matrix_idx];
  constexpr int kOuts = kGemvOuts<kRows>;
  __shared__ float warp_sums[kGemvWarps][kOuts * kRows];
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o) {
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float sum = warp_sum(sums[o][r]);
      if (work.lane == 0) warp_sums[warp][o * kRows + r] = sum;
    }
  }
  __syncthreads();
  if (work.group_warp != 0) return;
  for (int item = work.lane; item < kOuts * kRows; item += kWarpSize) {
    const std::int64_t out = work.first_out + item / kRows;
    const int r = item % kRows;
    if (r >= work.rows || out >= matrix.out) continue;
    float sum = 0.0F;
    for (int w = 0; w < 1 << matrix.warps_log2; ++w)
      sum += warp_sums[warp + w][item];
    if (work.stack_idx < 0) sum = 0.0F;
    if (matrix.bias != nullptr) sum += matrix.bias[out];
    const std::int64_t row = work.row_ids == nullptr ? r : work.row_ids[r];
    work.y[row * matrix.y.stride + out] = sum;
  }
}

// The job for rows [first_row, first_row + rows) of every product, or for RowTiles.
// values_per_warp: columns that a warp covers per iteration.
GemvJob gemv_job(const LinearBatch& products,
                 std::int64_t first_row,
                 std::int64_t rows,
                 std::int64_t values_per_warp);
GemvJob gemv_job(const LinearBatch& products, const RowTiles& rows, std::int64_t values_per_warp);

// Adds a matrix that is multiplied with the same rows.
void add_matrix(GemvJob& job,
                const MatrixResult& result,
                std::int64_t first_row,
                std::int64_t values_per_warp);

// The grid for `outs` outputs per group; sets first_block of every matrix.
dim3 gemv_grid(GemvJob& job, int outs);

}  // namespace graft::kernels::cuda
