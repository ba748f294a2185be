// GEMV in f32 arithmetic for weights of every format, decoded in registers. A lane takes 8 adjacent
// columns (a run) of every 256 * warps per group.

#include "graft/kernels/cuda/linear/gemv.cuh"

#include <algorithm>

#include "graft/base/check.h"

namespace graft::kernels::cuda {
namespace {

template <class Format, int kRows>
__global__ void __launch_bounds__(kGemvThreads, kGemvMinBlocks) gemv_kernel(GemvJob job) {
  begin_kernel();
  constexpr int kOuts = kGemvOuts<kRows>;
  const WarpWork work = warp_work<kOuts>(job);
  if (work.rows == 0) return;
  const float* x = job.x.data + work.x_product * job.x_batch_stride;
  int x_rows[kRows];
  load_x_rows(job, work, x_rows);
  const std::uint8_t* rows[kOuts];
  const float* row_scales[kOuts] = {};
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o) {
    const std::int64_t out = weight_row(job, work, o);
    rows[o] = work.weights + out * job.row_bytes;
    if constexpr (kMayHaveScales<Format>) {
      if (work.stack_idx >= 0)
        row_scales[o] = scales_of_row(*work.scales, work.stack_idx * job.matrices[0].out + out);
    }
  }
  float sums[kOuts][kRows] = {};
  const std::int64_t step = (std::int64_t{kWarpSize} * kRun) << job.matrices[0].warps_log2;
  std::int64_t col = static_cast<std::int64_t>(work.group_warp * kWarpSize + work.lane) * kRun;
  for (; col < job.in && work.stack_idx >= 0; col += step) {
    float weights[kOuts][kRun];
    GRAFT_UNROLL
    for (int o = 0; o < kOuts; ++o) {
      decode_run<Format>(rows[o], col, job.in, weights[o]);
      if constexpr (kMayHaveScales<Format>) {
        scale_run(*work.scales, row_scales[o], col, weights[o]);
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
  reduce_and_store<kRows>(job, work, sums);
}

using Launch = void (*)(const GemvJob& job, Stream stream);

template <class Format, int kRows>
void launch_rows(GemvJob job, Stream stream) {
  const dim3 grid = gemv_grid(job, kGemvOuts<kRows>);
  launch("gemv", gemv_kernel<Format, kRows>, {grid, kGemvThreads}, stream, job);
}

template <class Format>
void launch_format(const GemvJob& job, Stream stream) {
  if (job.rows == 1) {
    launch_rows<Format, 1>(job, stream);
  } else if (job.rows <= 4) {
    launch_rows<Format, 4>(job, stream);
  } else {
    launch_rows<Format, kMaxGemvRows>(job, stream);
  }
}

template <class Format>
struct GemvLauncher {
  static constexpr Launch kLaunch = launch_format<Format>;
};

constexpr auto kLaunches = table_of<Launch, GemvLauncher>(AllFormats{});

Launch function_for(const LinearBatch& products) {
  const Launch function = kLaunches[static_cast<std::size_t>(products.stack.dtype)];
  GRAFT_CHECK(function != nullptr, "no GEMV kernel for weights of type ",
              name(products.stack.dtype));
  return function;
}

// log2 of the warps per output. Many outputs fill the GPU with one warp each; with few, the columns
// are split. A lane keeps at least two loads per row, and the choice depends only on the matrix, so
// the summation order does too.
int warps_log2_for(std::int64_t in, std::int64_t out, std::int64_t values_per_warp) {
  static_assert(kGemvWarps == 4);
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

GemvJob gemv_job(const LinearBatch& products,
                 std::int64_t first_row,
                 std::int64_t rows,
                 std::int64_t values_per_warp) {
  const Matrix& stack = products.stack;
  const auto address = reinterpret_cast<std::uintptr_t>(products.x.data);
  GemvJob job = {.matrices = {},
                 .num_matrices = 0,
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
                 .products_per_x = static_cast<int>(products.products_per_x),
                 .x_vectors = address % 16 == 0 && products.x.stride % 4 == 0 &&
                              products.x_batch_stride % 4 == 0,
                 .y_batch_stride = products.y_batch_stride,
                 .tiles = nullptr,
                 .row_ids = nullptr};
  Matrix weight = stack;
  weight.rows = products.out;
  add_matrix(job, {weight, products.bias, products.y}, first_row, values_per_warp);
  return job;
}

GemvJob gemv_job(const LinearBatch& products, const RowTiles& rows, std::int64_t values_per_warp) {
  GemvJob job = gemv_job(products, 0, kGemvTileRows, values_per_warp);
  job.batch = static_cast<int>(rows.count);
  job.tiles = rows.tiles;
  job.row_ids = rows.row_ids;
  return job;
}

void add_matrix(GemvJob& job,
                const MatrixResult& result,
                std::int64_t first_row,
                std::int64_t values_per_warp) {
  const Rows y = result.y;
  job.matrices[job.num_matrices++] = {
      .data = static_cast<const std::uint8_t*>(result.weight.data),
      .bias = result.bias,
      .y = {y.data + first_row * y.stride, y.stride},
      .out = result.weight.rows,
      .warps_log2 = warps_log2_for(job.in, result.weight.rows, values_per_warp),
      .first_block = 0};
}

dim3 gemv_grid(GemvJob& job, int outs) {
  unsigned blocks = 0;
  for (int i = 0; i < job.num_matrices; ++i) {
    GemvMatrix& matrix = job.matrices[i];
    matrix.first_block = blocks;
    blocks += blocks_for(matrix.out, (kGemvWarps >> matrix.warps_log2) * outs);
  }
  return {blocks, static_cast<unsigned>(job.batch * (job.second != nullptr ? 2 : 1))};
}

void gemv(const LinearBatch& products, Stream stream) {
  std::int64_t row = 0;
  const std::int64_t groups = products.rows / kMaxGemvRows;
  if (groups > 1 && products.batch == 1 && products.stack.scales.values == nullptr &&
      products.second == nullptr) {
    // Groups of 8 rows are the products of a batch, all with the same matrix.
    LinearBatch grouped = products;
    grouped.matrix_bytes = 0;
    grouped.batch = groups;
    grouped.rows = kMaxGemvRows;
    grouped.x_batch_stride = kMaxGemvRows * products.x.stride;
    grouped.y_batch_stride = kMaxGemvRows * products.y.stride;
    function_for(grouped)(gemv_job(grouped, 0, kMaxGemvRows, kWarpSize * kRun), stream);
    row = groups * kMaxGemvRows;
  }
  for (; row < products.rows; row += kMaxGemvRows) {
    const std::int64_t rows = std::min<std::int64_t>(kMaxGemvRows, products.rows - row);
    function_for(products)(gemv_job(products, row, rows, kWarpSize * kRun), stream);
  }
}

void gemv_experts(const LinearBatch& products, const RowTiles& rows, Stream stream) {
  function_for(products)(gemv_job(products, rows, kWarpSize * kRun), stream);
}

}  // namespace graft::kernels::cuda
