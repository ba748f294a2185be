// Shared by the tiled GEMM kernels. A block computes kGemmTileRows rows of x times kTileOuts rows
// of one weight matrix; both go through shared memory kTileDepth columns at a time. Weights of any
// format are decoded to f32 (or F16) on the way, 8 values (a run) per thread and load.
//
//    grid.x   row tiles: blocks of 64 rows, or RowTiles of experts
//    grid.y   blocks of kTileOuts outputs
//    grid.z   products: `batch` of the first stack, then of the second

#pragma once

#include "graft/kernels/cuda/formats/formats.cuh"
#include "graft/kernels/cuda/linear/linear.h"

namespace graft::kernels::cuda {

inline constexpr int kGemmThreads = 256;
inline constexpr int kTileDepth = 32;                         // columns per step
inline constexpr int kRunsPerStep = kTileDepth / kRun;        // runs of 8 values
static_assert(kGemmTileRows * kRunsPerStep == kGemmThreads);  // a thread loads one run of x

// LinearBatch in kernel form.
struct GemmJob {
  const std::uint8_t* data;
  const std::uint8_t* second;
  Scales scales;
  Scales second_scales;
  std::int64_t row_bytes;
  std::int64_t matrix_bytes;
  const std::int32_t* matrix_ids;
  const float* bias;
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;
  ConstRows x;
  std::int64_t x_batch_stride;
  std::int64_t products_per_x;
  bool x_vectors;  // rows of x (or f16) are aligned for 16-byte loads
  F16Rows f16;     // replaces x in the F16 kernel
  std::int64_t f16_rows_per_product;
  Rows y;
  std::int64_t y_batch_stride;
  const RowTile* tiles;  // null: every product has the same rows
  const std::int32_t* row_ids;
};

// What one block computes, except for its outputs.
struct GemmTile {
  std::int64_t matrix;  // index in the stack; negative: none, the result is 0
  std::int64_t first;   // first row, or first index into row_ids
  std::int64_t count;   // rows of the tile
  const std::uint8_t* weights;
  const Scales* scales;
  std::int64_t x_product;  // x rows start at x_product * x_batch_stride
  float* y;
};

__device__ inline GemmTile gemm_tile(const GemmJob& job) {
  GemmTile tile;
  const std::int64_t product = blockIdx.z;
  const bool is_second = product >= job.batch;
  const std::int64_t item = is_second ? product - job.batch : product;
  if (job.tiles != nullptr) {
    const RowTile rows = job.tiles[blockIdx.x];
    tile.matrix = rows.matrix;
    tile.first = rows.first;
    tile.count = rows.count;
  } else {
    tile.matrix = job.matrix_ids != nullptr ? job.matrix_ids[item] : item;
    tile.first = blockIdx.x * kGemmTileRows;
    const std::int64_t left = job.rows - tile.first;
    tile.count = left < kGemmTileRows ? left : kGemmTileRows;
  }
  tile.weights =
      (is_second ? job.second : job.data) + (tile.matrix < 0 ? 0 : tile.matrix) * job.matrix_bytes;
  tile.scales = is_second ? &job.second_scales : &job.scales;
  tile.x_product = job.tiles != nullptr ? 0 : item / job.products_per_x;
  tile.y = job.y.data + product * job.y_batch_stride;
  return tile;
}

// Rows of x and y of row m of the tile; -1 past its end.
struct RowPair {
  std::int64_t x;
  std::int64_t y;
};

__device__ inline RowPair tile_row(const GemmJob& job, const GemmTile& tile, int m) {
  if (m >= tile.count) return {-1, -1};
  if (job.tiles == nullptr) return {tile.first + m, tile.first + m};
  const std::int64_t id = job.row_ids[tile.first + m];
  return {id / job.products_per_x, id};
}

// 8 values of a row of x; zeros past its end and for row -1.
__device__ inline void load_tile_x(const GemmJob& job,
                                   const GemmTile& tile,
                                   std::int64_t row,
                                   std::int64_t col,
                                   float (&to)[kRun]) {
  if (row >= 0) {
    const float* from = job.x.data + tile.x_product * job.x_batch_stride + row * job.x.stride;
    load_floats(from, col, job.in, job.x_vectors, to);
    return;
  }
  GRAFT_UNROLL
  for (float& value : to)
    value = 0.0F;
}

// 8 dequantized weights of row `out`; past the matrix its last row is loaded and the result
// ignored.
template <class Format>
__device__ void load_tile_weights(const GemmJob& job,
                                  const GemmTile& tile,
                                  std::int64_t out,
                                  std::int64_t col,
                                  float (&to)[kRun]) {
  const std::int64_t row = out < job.out ? out : job.out - 1;
  decode_run<Format>(tile.weights + row * job.row_bytes, col, job.in, to);
  if constexpr (kMayHaveScales<Format>) {
    const float* row_scales = scales_of_row(*tile.scales, tile.matrix * job.out + row);
    if (col < job.in) scale_run(*tile.scales, row_scales, col, to);
  }
}

using GemmLaunch = void (*)(const GemmJob& job, dim3 rows_and_products, Stream stream);

// Launchers by weight dtype; null: not supported. The caller fills grid.x and grid.z.
GemmLaunch gemm_tiled_f32(DType dtype);
GemmLaunch gemm_tiled_f16(DType dtype);

}  // namespace graft::kernels::cuda
