#include "graft/kernels/cuda/linear/gemv.cuh"

#include <algorithm>

#include "graft/base/check.h"

namespace graft::kernels::cuda {
namespace {

template <class Format, int kRows>
__global__ void __launch_bounds__(kFewThreads, kFewBlocks) gemv_kernel(FewJob job) {
  constexpr int kOuts = kFewOuts<kRows>;
  const FewPlace place = few_place<kOuts>(job);
  if (place.rows == 0) return;
  const float* x = job.x.data + place.x_product * job.x_batch_stride;
  int x_rows[kRows];
  few_rows(job, place, x_rows);
  const std::uint8_t* rows[kOuts];
  const float* row_scales[kOuts] = {};
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o) {
    const std::int64_t out = few_out(job, place, o);
    rows[o] = place.weights + out * job.row_bytes;
    if constexpr (kMayHaveScales<Format>) {
      if (place.matrix >= 0)
        row_scales[o] = scales_of_row(*place.scales, place.matrix * job.parts[0].out + out);
    }
  }
  float sums[kOuts][kRows] = {};
  const std::int64_t step = (std::int64_t{kWarpSize} * kRun) << job.parts[0].warp_bits;
  std::int64_t col = static_cast<std::int64_t>(place.part * kWarpSize + place.lane) * kRun;
  for (; col < job.in && place.matrix >= 0; col += step) {
    float weights[kOuts][kRun];
    GRAFT_UNROLL
    for (int o = 0; o < kOuts; ++o) {
      decode_run<Format>(rows[o], col, job.in, weights[o]);
      if constexpr (kMayHaveScales<Format>) {
        scale_run(*place.scales, row_scales[o], col, weights[o]);
      }
    }
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float values[kRun];
      load_floats(x + x_rows[r] * job.x.stride, col, job.in, job.x_vectors, values);
      GRAFT_UNROLL
      for (int i = 0; i < kRun; ++i) {
        GRAFT_UNROLL
        for (int o = 0; o < kOuts; ++o)
          sums[o][r] = fmaf(weights[o][i], values[i], sums[o][r]);
      }
    }
  }
  write_few<kRows>(job, place, sums);
}

using Launch = void (*)(const FewJob& job, Stream stream);

template <class Format, int kRows>
void launch_rows(FewJob job, Stream stream) {
  const dim3 grid = lay_out(job, kFewOuts<kRows>);
  launch("gemv", gemv_kernel<Format, kRows>, {grid, kFewThreads}, stream, job);
}

template <class Format>
void launch_few(const FewJob& job, Stream stream) {
  if (job.rows == 1) {
    launch_rows<Format, 1>(job, stream);
  } else if (job.rows <= 4) {
    launch_rows<Format, 4>(job, stream);
  } else {
    launch_rows<Format, kMaxFewRows>(job, stream);
  }
}

template <class Format>
struct Few {
  static constexpr Launch kLaunch = launch_few<Format>;
};

constexpr auto kFew = table_of<Launch, Few>(AllFormats{});

Launch function_for(const LinearBatch& products) {
  const Launch function = kFew[static_cast<std::size_t>(products.stack.dtype)];
  GRAFT_CHECK(function != nullptr, "no kernel multiplies ", name(products.stack.dtype));
  return function;
}

// How many warps share an output, as a power of two. A matrix of many rows fills the GPU with one
// each; of a small one every row is cut. A warp keeps at least two loads of each lane, and the
// choice depends on nothing but the matrix, so that the order of the sums does not either.
int warp_bits_for(std::int64_t in, std::int64_t out, std::int64_t values_per_warp) {
  static_assert(kFewWarps == 4);
  int bits = out >= 16384 ? 0 : out >= 4096 ? 1 : 2;
  while (bits > 0 && in < (2 * values_per_warp) << bits)
    --bits;
  return bits;
}

}  // namespace

LinearBatch one_linear(
    const Matrix& weight, const float* bias, ConstRows x, Rows y, std::int64_t rows) {
  return {.stack = weight, .out = weight.rows, .bias = bias, .rows = rows, .x = x, .y = y};
}

FewJob few_job(const LinearBatch& products,
               std::int64_t first_row,
               std::int64_t rows,
               std::int64_t values_per_warp) {
  const Matrix& stack = products.stack;
  const auto address = reinterpret_cast<std::uintptr_t>(products.x.data);
  FewJob job = {.parts = {},
                .num_parts = 0,
                .second = static_cast<const std::uint8_t*>(products.second),
                .scales = stack.scales,
                .second_scales = products.second_scales,
                .row_bytes = static_cast<std::int64_t>(stack.row_bytes()),
                .matrix_bytes = static_cast<std::int64_t>(products.matrix_bytes),
                .matrix_ids = products.matrix_ids,
                .in = stack.cols,
                .batch = static_cast<int>(products.batch),
                .rows = static_cast<int>(rows),
                .x = {products.x.data + first_row * products.x.stride, products.x.stride},
                .x_batch_stride = products.x_batch_stride,
                .x_share = static_cast<int>(products.x_share),
                .x_vectors = address % 16 == 0 && products.x.stride % 4 == 0 &&
                             products.x_batch_stride % 4 == 0,
                .y_batch_stride = products.y_batch_stride,
                .tiles = nullptr,
                .row_ids = nullptr};
  Matrix weight = stack;
  weight.rows = products.out;
  add_part(job, {weight, products.bias, products.y}, first_row, values_per_warp);
  return job;
}

FewJob few_job(const LinearBatch& products, const RowTiles& rows, std::int64_t values_per_warp) {
  FewJob job = few_job(products, 0, kFewTileRows, values_per_warp);
  job.batch = static_cast<int>(rows.count);
  job.tiles = rows.tiles;
  job.row_ids = rows.row_ids;
  return job;
}

void add_part(FewJob& job,
              const MatrixResult& result,
              std::int64_t first_row,
              std::int64_t values_per_warp) {
  const Rows y = result.y;
  job.parts[job.num_parts++] = {
      .data = static_cast<const std::uint8_t*>(result.weight.data),
      .bias = result.bias,
      .y = {y.data + first_row * y.stride, y.stride},
      .out = result.weight.rows,
      .warp_bits = warp_bits_for(job.in, result.weight.rows, values_per_warp),
      .first_block = 0};
}

dim3 lay_out(FewJob& job, int outs) {
  unsigned blocks = 0;
  for (int i = 0; i < job.num_parts; ++i) {
    FewPart& part = job.parts[i];
    part.first_block = blocks;
    blocks += blocks_for(part.out, (kFewWarps >> part.warp_bits) * outs);
  }
  return {blocks, static_cast<unsigned>(job.batch * (job.second != nullptr ? 2 : 1))};
}

void gemv(const LinearBatch& products, Stream stream) {
  for (std::int64_t row = 0; row < products.rows; row += kMaxFewRows) {
    const std::int64_t rows = std::min<std::int64_t>(kMaxFewRows, products.rows - row);
    function_for(products)(few_job(products, row, rows, kWarpSize * kRun), stream);
  }
}

void gemv_experts(const LinearBatch& products, const RowTiles& rows, Stream stream) {
  function_for(products)(few_job(products, rows, kWarpSize * kRun), stream);
}

}  // namespace graft::kernels::cuda
