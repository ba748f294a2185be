// What the kernels for many rows have in common. A block computes a tile of kTileRows rows of x and
// some rows of weights; both go through shared memory in steps of kTileDepth columns.

#pragma once

#include "graft/kernels/cuda/formats/formats.cuh"
#include "graft/kernels/cuda/linear/linear.h"

namespace graft::kernels::cuda {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileDepth = 32;
inline constexpr int kRunsPerStep = kTileDepth / kRun;
static_assert(kTileRows * kRunsPerStep == kTileThreads);  // a thread loads one run of x

// LinearBatch as the kernels take it. Tiles: null, and every product has the same rows.
struct TiledJob {
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
  std::int64_t x_share;
  bool x_vectors;
  HalfRows half;  // what the kernels for F16 take in place of x
  std::int64_t half_rows_per_product;
  Rows y;
  std::int64_t y_batch_stride;
  const RowTile* tiles;
  const std::int32_t* row_ids;
};

struct TilePlace {
  std::int64_t matrix;  // negative: none
  std::int64_t first;   // row, or place in row_ids
  std::int64_t count;   // rows of the tile
  const std::uint8_t* weights;
  const Scales* scales;
  std::int64_t x_product;  // whose rows of x
  float* y;
};

__device__ inline TilePlace tile_place(const TiledJob& job) {
  TilePlace place;
  const std::int64_t product = blockIdx.z;
  const bool is_second = product >= job.batch;
  const std::int64_t item = is_second ? product - job.batch : product;
  if (job.tiles != nullptr) {
    const RowTile tile = job.tiles[blockIdx.x];
    place.matrix = tile.matrix;
    place.first = tile.first;
    place.count = tile.count;
  } else {
    place.matrix = job.matrix_ids != nullptr ? job.matrix_ids[item] : item;
    place.first = blockIdx.x * kTileRows;
    const std::int64_t left = job.rows - place.first;
    place.count = left < kTileRows ? left : kTileRows;
  }
  place.weights = (is_second ? job.second : job.data) +
                  (place.matrix < 0 ? 0 : place.matrix) * job.matrix_bytes;
  place.scales = is_second ? &job.second_scales : &job.scales;
  place.x_product = job.tiles != nullptr ? 0 : item / job.x_share;
  place.y = job.y.data + product * job.y_batch_stride;
  return place;
}

// Row of x and of y that row `m` of the tile is; -1: none.
struct RowPair {
  std::int64_t x;
  std::int64_t y;
};

__device__ inline RowPair tile_row(const TiledJob& job, const TilePlace& place, int m) {
  if (m >= place.count) return {-1, -1};
  if (job.tiles == nullptr) return {place.first + m, place.first + m};
  const std::int64_t id = job.row_ids[place.first + m];
  return {id / job.x_share, id};
}

__device__ inline void load_tile_x(const TiledJob& job,
                                   const TilePlace& place,
                                   std::int64_t row,
                                   std::int64_t col,
                                   float (&to)[kRun]) {
  if (row >= 0) {
    const float* from = job.x.data + place.x_product * job.x_batch_stride + row * job.x.stride;
    load_floats(from, col, job.in, job.x_vectors, to);
    return;
  }
  GRAFT_UNROLL
  for (float& value : to)
    value = 0.0F;
}

// A run of weights of row `out`; past the matrix that of its last row, whose result is not used.
template <class Format>
__device__ void load_tile_weights(const TiledJob& job,
                                  const TilePlace& place,
                                  std::int64_t out,
                                  std::int64_t col,
                                  float (&to)[kRun]) {
  const std::int64_t row = out < job.out ? out : job.out - 1;
  decode_run<Format>(place.weights + row * job.row_bytes, col, job.in, to);
  if constexpr (kMayHaveScales<Format>) {
    const float* row_scales = scales_of_row(*place.scales, place.matrix * job.out + row);
    if (col < job.in) scale_run(*place.scales, row_scales, col, to);
  }
}

using TiledLaunch = void (*)(const TiledJob& job, dim3 rows_and_products, Stream stream);

// By type. The grid's x is the number of tiles of rows, its z that of products.
TiledLaunch tiled_f32(DType dtype);
TiledLaunch tiled_f16(DType dtype);

}  // namespace graft::kernels::cuda
