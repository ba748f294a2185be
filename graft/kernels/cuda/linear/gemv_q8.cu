// GEMV with int8 activations: y[rows, out] f32 = x[rows, in] W[out, in]^T + bias, with x quantized
// to int8 with one f32 scale per 32 values (Q8Rows), dot products by dp4a on the packed weights.
//
// Block and grid as in gemv.cuh. Within a weight row the lanes of a group are laid out over the
// blocks of the format: kLanesPerBlock adjacent lanes share a block, each with one slice (see
// dot_q8.cuh). Q4_K, 8 lanes per block of 256 values, one warp per output:
//
//    block   0          1           2            3            4          5 …
//    lane    0 … 7      8 … 15      16 … 23      24 … 31      0 … 7      8 … 15
//
// Only the final sums go through shared memory (reduce_and_store() in gemv.cuh).

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/dot_q8.cuh"
#include "graft/kernels/cuda/linear/gemv.cuh"
#include "graft/kernels/cuda/linear/quantize.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

struct RowSource {
  ConstRows x;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    return x.data[row * x.stride + col];
  }
};

struct SiluMulSource {
  ConstRows gate;
  ConstRows up;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    return swiglu(gate.data[row * gate.stride + col], up.data[row * up.stride + col]);
  }
};

constexpr int kQuantizeThreads = 256;

// Grid: (rows, column blocks), one warp per group of 32 values.
template <class Source>
__global__ void quantize_kernel(Source source, Q8Rows out, std::int64_t cols) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kQuantizeThreads + threadIdx.x;
  if (col >= cols) return;  // full warps
  const float value = source(row, col);
  const float max_abs = warp_max(fabsf(value));
  const float scale = q8_scale(max_abs);
  const int quant = quantize_q8(value, max_abs, scale);
  int sum = quant;
  GRAFT_UNROLL
  for (int lane_mask = kWarpSize / 2; lane_mask > 0; lane_mask /= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, lane_mask);
  out.quants[row * cols + col] = static_cast<std::int8_t>(quant);
  if (col % kQ8GroupSize == 0) {
    reinterpret_cast<float2*>(out.scales)[(row * cols + col) / kQ8GroupSize] =
        q8_scale_and_sum(scale, sum);
  }
}

template <class Source>
void quantize(const char* name,
              const Source& source,
              const Q8Rows& out,
              std::int64_t rows,
              std::int64_t cols,
              Stream stream) {
  GRAFT_CHECK(cols % kQ8GroupSize == 0, cols, " columns are not a multiple of ", kQ8GroupSize);
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(cols, kQuantizeThreads));
  launch(name, quantize_kernel<Source>, {grid, kQuantizeThreads}, stream, source, out, cols);
}

// A lane's weight rows (one per output) and rows of x.
template <int kRows>
struct GemvQ8Operands {
  const std::uint8_t* weights[kGemvOuts<kRows>];
  const std::int8_t* quants;
  const float2* scales;
  std::int64_t in;
  int rows[kRows];
};

// Adds the lane's slice of one block to all sums.
template <class Dot, int kRows>
__device__ void add_block(const GemvQ8Operands<kRows>& from,
                          std::size_t block,
                          int slice,
                          float (&sums)[kGemvOuts<kRows>][kRows]) {
  using Format = typename Dot::FormatType;
  constexpr int kOuts = kGemvOuts<kRows>;
  typename Dot::Weights weights[kOuts];
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o)
    weights[o] = Dot::weights(from.weights[o] + block * Format::kBlockBytes, slice);
  GRAFT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Q8Block x = {from.quants + from.rows[r] * from.in + block * Format::kBlockValues,
                       from.scales + from.rows[r] * (from.in / kQ8GroupSize) +
                           block * (Format::kBlockValues / kQ8GroupSize)};
    const typename Dot::Activations activations = Dot::activations(x, slice);
    GRAFT_UNROLL
    for (int o = 0; o < kOuts; ++o)
      sums[o][r] = Dot::add_dot(sums[o][r], weights[o], activations);
  }
}

// Minimum resident blocks per SM. For one or two rows many warps hide latency better than
// prefetching; more rows need the registers for sums.
template <int kRows>
inline constexpr int kQ8MinBlocks = kRows == 1   ? 8
                                    : kRows == 2 ? 5
                                                 : kGemvMinBlocks;

// The first weights of a warp, while earlier kernels still run. Which matrices of a stack are used
// is known only after them.
template <class Dot, int kRows>
__device__ void prefetch_first_blocks(const GemvJob& job) {
  if (job.tiles != nullptr || job.matrix_ids != nullptr) return;
  const WarpWork work = warp_work<kGemvOuts<kRows>>(job);
  const int block = (work.group_warp * kWarpSize + work.lane) / Dot::kLanesPerBlock;
  if (block >= job.in / Dot::FormatType::kBlockValues) return;
  GRAFT_UNROLL
  for (int o = 0; o < kGemvOuts<kRows>; ++o)
    prefetch_l2(work.weights + weight_row(job, work, o) * job.row_bytes +
                block * Dot::FormatType::kBlockBytes);
}

template <class Dot, int kRows>
__global__ void __launch_bounds__(kGemvThreads, kQ8MinBlocks<kRows>)
    gemv_q8_kernel(GemvJob job, Q8Rows q8, std::int64_t rows_per_product) {
  using Format = typename Dot::FormatType;
  constexpr int kOuts = kGemvOuts<kRows>;
  prefetch_first_blocks<Dot, kRows>(job);
  begin_kernel();
  const WarpWork work = warp_work<kOuts>(job);
  if (work.rows == 0) return;
  const std::int64_t first_row = work.x_product * rows_per_product;
  GemvQ8Operands<kRows> from;
  from.quants = q8.quants + first_row * job.in;
  from.scales = reinterpret_cast<const float2*>(q8.scales) + first_row * (job.in / kQ8GroupSize);
  from.in = job.in;
  load_x_rows(job, work, from.rows);
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o)
    from.weights[o] = work.weights + weight_row(job, work, o) * job.row_bytes;
  float sums[kOuts][kRows] = {};
  // A lane has the same slice in every block, so what depends on it is computed once.
  const int slice = work.lane % Dot::kLanesPerBlock;
  const unsigned step = (kWarpSize / Dot::kLanesPerBlock)
                        << job.matrices[work.matrix_idx].warps_log2;
  const auto num_blocks =
      work.stack_idx < 0 ? 0U : static_cast<unsigned>(job.in / Format::kBlockValues);
  unsigned block =
      static_cast<unsigned>(work.group_warp * kWarpSize + work.lane) / Dot::kLanesPerBlock;
  for (; block < num_blocks; block += step)
    add_block<Dot, kRows>(from, block, slice, sums);
  reduce_and_store<kRows>(job, work, sums);
}

// A call: products and the int8 rows of x, for RowTiles or for rows [first_row, first_row + rows).
struct Q8Job {
  LinearBatch products;
  std::span<const MatrixResult> grouped;  // more matrices for the same rows
  RowTiles tiles;                         // null: rows from first_row on
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  Q8Rows q8;
};

using Launch = void (*)(const Q8Job& q8_job, Stream stream);

template <class Dot, int kRows>
void launch_rows(GemvJob job, const Q8Rows& q8, std::int64_t rows_per_product, Stream stream) {
  const dim3 grid = gemv_grid(job, kGemvOuts<kRows>);
  launch("gemv_q8", gemv_q8_kernel<Dot, kRows>, {grid, kGemvThreads}, stream, job, q8,
         rows_per_product);
}

template <class Dot>
void launch_q8(const Q8Job& q8_job, Stream stream) {
  constexpr int kValuesPerWarp = Dot::FormatType::kBlockValues / Dot::kLanesPerBlock * kWarpSize;
  const LinearBatch& products = q8_job.products;
  const std::int64_t in = products.stack.cols;
  if (q8_job.tiles.tiles != nullptr) {
    launch_rows<Dot, kMaxGemvRows>(gemv_job(products, q8_job.tiles, kValuesPerWarp), q8_job.q8, 0,
                                   stream);
    return;
  }
  GemvJob job = gemv_job(products, q8_job.first_row, q8_job.rows, kValuesPerWarp);
  for (const MatrixResult& result : q8_job.grouped)
    add_matrix(job, result, q8_job.first_row, kValuesPerWarp);
  const Q8Rows from = {q8_job.q8.quants + q8_job.first_row * in,
                       q8_job.q8.scales + q8_job.first_row * (in / kQ8GroupSize) * 2};
  const std::int64_t rows_per_product = products.x_batch_stride / in;
  if (job.rows == 1) {
    launch_rows<Dot, 1>(job, from, rows_per_product, stream);
  } else if (job.rows == 2) {
    launch_rows<Dot, 2>(job, from, rows_per_product, stream);
  } else if (job.rows <= 4) {
    launch_rows<Dot, 4>(job, from, rows_per_product, stream);
  } else {
    launch_rows<Dot, kMaxGemvRows>(job, from, rows_per_product, stream);
  }
}

template <class Dot>
struct DotEntry {
  static constexpr DType kType = Dot::FormatType::kType;
  static constexpr Launch kLaunchOfType = launch_q8<Dot>;
};

template <class Entry>
struct DotLauncher {
  static constexpr Launch kLaunch = Entry::kLaunchOfType;
};

constexpr auto kLaunches = table_of<Launch, DotLauncher>(FormatList<DotEntry<DotQ40>,
                                                                    DotEntry<DotQ41>,
                                                                    DotEntry<DotQ50>,
                                                                    DotEntry<DotQ51>,
                                                                    DotEntry<DotIq4Nl>,
                                                                    DotEntry<DotQ80>,
                                                                    DotEntry<DotQ4K>,
                                                                    DotEntry<DotQ5K>,
                                                                    DotEntry<DotQ6K>>{});

Launch function_for(const LinearBatch& products) {
  const Launch function = kLaunches[static_cast<std::size_t>(products.stack.dtype)];
  GRAFT_CHECK(function != nullptr, "no int8 GEMV kernel for weights of type ",
              name(products.stack.dtype));
  return function;
}

// Eight rows per launch.
void multiply(Q8Job job, Stream stream) {
  const std::int64_t rows = job.products.rows;
  for (; job.first_row < rows; job.first_row += kMaxGemvRows) {
    job.rows = std::min<std::int64_t>(kMaxGemvRows, rows - job.first_row);
    function_for(job.products)(job, stream);
  }
}

std::size_t quants_bytes(std::int64_t rows, std::int64_t cols) {
  return aligned_bytes(static_cast<std::size_t>(rows * cols));
}

}  // namespace

std::size_t q8_rows_bytes(std::int64_t rows, std::int64_t cols) {
  const auto groups = static_cast<std::size_t>(rows * (cols / kQ8GroupSize));
  return quants_bytes(rows, cols) + aligned_bytes(groups * 2 * sizeof(float));
}

Q8Rows q8_rows_at(void* memory, std::int64_t rows, std::int64_t cols) {
  auto* bytes = static_cast<std::byte*>(memory);
  return {.quants = reinterpret_cast<std::int8_t*>(bytes),
          .scales = reinterpret_cast<float*>(bytes + quants_bytes(rows, cols))};
}

void quantize_rows(
    ConstRows x, const Q8Rows& out, std::int64_t rows, std::int64_t cols, Stream stream) {
  quantize("quantize_rows", RowSource{x}, out, rows, cols, stream);
}

void silu_mul_q8(ConstRows gate,
                 ConstRows up,
                 const Q8Rows& out,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream) {
  quantize("silu_mul_q8", SiluMulSource{gate, up}, out, rows, cols, stream);
}

bool has_gemv_q8(DType dtype) {
  return kLaunches[static_cast<std::size_t>(dtype)] != nullptr;
}

void gemv_q8(const LinearBatch& products, const Q8Rows& q8, Stream stream) {
  multiply({.products = products, .grouped = {}, .tiles = {}, .q8 = q8}, stream);
}

void gemv_q8_grouped(std::span<const MatrixResult> results,
                     const Q8Rows& q8,
                     std::int64_t rows,
                     Stream stream) {
  GRAFT_CHECK(!results.empty() && results.size() <= kMaxGroupedMatrices, results.size(),
              " grouped matrices, max ", kMaxGroupedMatrices);
  const MatrixResult& first = results.front();
  for (const MatrixResult& result : results) {
    GRAFT_CHECK(
        result.weight.dtype == first.weight.dtype && result.weight.cols == first.weight.cols,
        "grouped matrices differ in dtype or columns");
  }
  multiply({.products = one_linear(first.weight, first.bias, {}, first.y, rows),
            .grouped = results.subspan(1),
            .tiles = {},
            .q8 = q8},
           stream);
}

void gemv_q8_experts(const LinearBatch& products,
                     const RowTiles& rows,
                     const Q8Rows& q8,
                     Stream stream) {
  function_for(products)({.products = products, .grouped = {}, .tiles = rows, .q8 = q8}, stream);
}

}  // namespace graft::kernels::cuda
