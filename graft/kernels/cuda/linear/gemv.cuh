// What the kernels for few rows have in common: a group of warps computes two or four outputs for
// up to eight rows, so that every value of x that is loaded serves as many rows of weights.

#pragma once

#include "graft/kernels/cuda/formats/formats.cuh"
#include "graft/kernels/cuda/linear/linear.h"

namespace graft::kernels::cuda {

inline constexpr int kFewThreads = 128;
inline constexpr int kFewWarps = kFewThreads / kWarpSize;
// Blocks that run together on a multiprocessor, at least: with fewer too few loads are under way.
// Left alone the compiler takes more registers than that allows for eight rows of Q5_K.
inline constexpr int kFewBlocks = 3;
inline constexpr int kMaxFewRows = 8;
static_assert(kMaxFewRows == kFewTileRows);

// With more rows more of x goes by for every weight, and must be shared by more of them.
template <int kRows>
inline constexpr int kFewOuts = kRows >= 4 ? 4 : 2;

// One of the matrices that a launch multiplies the same rows with.
struct FewPart {
  const std::uint8_t* data;
  const float* bias;
  Rows y;
  std::int64_t out;
  int warp_bits;         // 2 to this power warps share an output
  unsigned first_block;  // of the grid's x
};

// LinearBatch as the kernels take it, for one slice of at most kMaxFewRows rows.
struct FewJob {
  FewPart parts[kMaxGroupedMatrices];  // more than one only without stacks
  int num_parts;
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
  int x_share;
  bool x_vectors;  // rows of x are at multiples of 16 bytes
  std::int64_t y_batch_stride;
  const RowTile* tiles;  // null: every product has the same rows
  const std::int32_t* row_ids;
};

// What the group of a warp works on.
struct FewPlace {
  std::int64_t matrix;  // negative: none
  int rows;
  const std::int32_t* row_ids;  // null: rows in order
  const std::uint8_t* weights;  // of the matrix
  const Scales* scales;
  std::int64_t x_product;  // whose rows of x
  float* y;
  int job_part;  // of FewJob
  std::int64_t first_out;
  int part;  // which of the group's warps
  int lane;
};

template <int kOuts>
__device__ FewPlace few_place(const FewJob& job) {
  FewPlace place;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  place.lane = static_cast<int>(threadIdx.x) % kWarpSize;
  place.job_part = 0;
  while (place.job_part + 1 < job.num_parts &&
         blockIdx.x >= job.parts[place.job_part + 1].first_block)
    ++place.job_part;
  const FewPart& part = job.parts[place.job_part];
  place.part = warp & ((1 << part.warp_bits) - 1);
  const auto product = static_cast<int>(blockIdx.y);
  const bool is_second = product >= job.batch;
  const int item = is_second ? product - job.batch : product;
  if (job.tiles != nullptr) {
    const RowTile tile = job.tiles[item];
    place.matrix = tile.matrix;
    place.rows = tile.count;
    place.row_ids = job.row_ids + tile.first;
    place.x_product = 0;
    place.y = part.y.data + (is_second ? job.y_batch_stride : 0);
  } else {
    place.matrix = job.matrix_ids != nullptr ? job.matrix_ids[item] : item;
    place.rows = job.rows;
    place.row_ids = nullptr;
    place.x_product = item / job.x_share;
    place.y = part.y.data + product * job.y_batch_stride;
  }
  place.scales = is_second ? &job.second_scales : &job.scales;
  place.weights = (is_second ? job.second : part.data) +
                  (place.matrix < 0 ? 0 : place.matrix) * job.matrix_bytes;
  const int groups = kFewWarps >> part.warp_bits;
  place.first_out = (static_cast<std::int64_t>(blockIdx.x - part.first_block) * groups +
                     (warp >> part.warp_bits)) *
                    kOuts;
  return place;
}

// Row of weights for output `o` of the group. The last group may have some too many, which repeat
// the last row and are not written.
__device__ inline std::int64_t few_out(const FewJob& job, const FewPlace& place, int o) {
  const std::int64_t out = place.first_out + o;
  const std::int64_t end = job.parts[place.job_part].out;
  return out < end ? out : end - 1;
}

// Rows of x, counted from the product's first; past the last the first, for nobody.
template <int kRows>
__device__ void few_rows(const FewJob& job, const FewPlace& place, int (&rows)[kRows]) {
  GRAFT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int row = r < place.rows ? r : 0;
    rows[r] = place.row_ids == nullptr ? row : place.row_ids[row] / job.x_share;
  }
}

// Adds up the lanes, then the warps in ascending order, and writes the outputs.
template <int kRows>
__device__ void write_few(const FewJob& job,
                          const FewPlace& place,
                          float (&sums)[kFewOuts<kRows>][kRows]) {
  const FewPart& job_part = job.parts[place.job_part];
  constexpr int kOuts = kFewOuts<kRows>;
  __shared__ float parts[kFewWarps][kOuts * kRows];
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o) {
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float sum = warp_sum(sums[o][r]);
      if (place.lane == 0) parts[warp][o * kRows + r] = sum;
    }
  }
  __syncthreads();
  if (place.part != 0) return;
  for (int item = place.lane; item < kOuts * kRows; item += kWarpSize) {
    const std::int64_t out = place.first_out + item / kRows;
    const int r = item % kRows;
    if (r >= place.rows || out >= job_part.out) continue;
    float sum = 0.0F;
    for (int part = 0; part < 1 << job_part.warp_bits; ++part)
      sum += parts[warp + part][item];
    if (place.matrix < 0) sum = 0.0F;
    if (job_part.bias != nullptr) sum += job_part.bias[out];
    const std::int64_t row = place.row_ids == nullptr ? r : place.row_ids[r];
    place.y[row * job_part.y.stride + out] = sum;
  }
}

// The kernels' job for some rows of a batch of products, or for tiles of rows. values_per_warp:
// what the lanes of a warp load at a time.
FewJob few_job(const LinearBatch& products,
               std::int64_t first_row,
               std::int64_t rows,
               std::int64_t values_per_warp);
FewJob few_job(const LinearBatch& products, const RowTiles& rows, std::int64_t values_per_warp);

// One more matrix for the rows of `job`.
void add_part(FewJob& job,
              const MatrixResult& result,
              std::int64_t first_row,
              std::int64_t values_per_warp);

// The grid for kernels that compute so many outputs at a time, shared out among the parts.
dim3 lay_out(FewJob& job, int outs);

}  // namespace graft::kernels::cuda
