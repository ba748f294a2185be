#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/dot_q8.cuh"
#include "graft/kernels/cuda/linear/gemv.cuh"
#include "graft/kernels/cuda/linear/quantize.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

struct Values {
  ConstRows x;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    return x.data[row * x.stride + col];
  }
};

struct SiluProducts {
  ConstRows gate;
  ConstRows up;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    return swiglu(gate.data[row * gate.stride + col], up.data[row * up.stride + col]);
  }
};

constexpr int kQuantizeThreads = 256;

// A warp per group of 32 values; a block has some of those of one row.
template <class Source>
__global__ void quantize_kernel(Source source, Q8Rows out, std::int64_t cols) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kQuantizeThreads + threadIdx.x;
  if (col >= cols) return;  // whole warps
  const float value = source(row, col);
  const float largest = warp_max(fabsf(value));
  const float step = q8_scale(largest);
  const int code = quantize_q8(value, largest, step);
  int sum = code;
  GRAFT_UNROLL
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  out.quants[row * cols + col] = static_cast<std::int8_t>(code);
  if (col % kQ8GroupSize == 0) {
    reinterpret_cast<float2*>(out.scales)[(row * cols + col) / kQ8GroupSize] =
        q8_scale_and_sum(step, sum);
  }
}

template <class Source>
void quantize(const char* name,
              const Source& source,
              const Q8Rows& out,
              std::int64_t rows,
              std::int64_t cols,
              Stream stream) {
  GRAFT_CHECK(cols % kQ8GroupSize == 0, cols, " columns");
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(cols, kQuantizeThreads));
  launch(name, quantize_kernel<Source>, {grid, kQuantizeThreads}, stream, source, out, cols);
}

// What a lane multiplies: the rows of weights of its outputs with the rows of x.
template <int kRows>
struct Q8Operands {
  const std::uint8_t* weights[kFewOuts<kRows>];
  const std::int8_t* quants;
  const float2* scales;
  std::int64_t in;
  int rows[kRows];
};

// The lane's piece of a block.
template <class Dot, int kRows>
__device__ void add_block(const Q8Operands<kRows>& from,
                          std::size_t block,
                          int piece,
                          float (&sums)[kFewOuts<kRows>][kRows]) {
  using Format = typename Dot::FormatType;
  constexpr int kOuts = kFewOuts<kRows>;
  typename Dot::Weights weights[kOuts];
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o)
    weights[o] = Dot::weights(from.weights[o] + block * Format::kBlockBytes, piece);
  GRAFT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Q8Block x = {from.quants + from.rows[r] * from.in + block * Format::kBlockValues,
                       from.scales + from.rows[r] * (from.in / kQ8GroupSize) +
                           block * (Format::kBlockValues / kQ8GroupSize)};
    const typename Dot::Bytes bytes = Dot::bytes(x, piece);
    GRAFT_UNROLL
    for (int o = 0; o < kOuts; ++o)
      sums[o][r] = Dot::add_dot(sums[o][r], weights[o], bytes);
  }
}

// Many warps keep memory busy for one or two rows, better than loads ahead of their use do; more
// rows need the registers for sums.
template <int kRows>
inline constexpr int kQ8Blocks = kRows == 1   ? 8
                                 : kRows == 2 ? 5
                                              : kFewBlocks;

template <class Dot, int kRows>
__global__ void __launch_bounds__(kFewThreads, kQ8Blocks<kRows>)
    linear_q8_kernel(FewJob job, Q8Rows q8, std::int64_t rows_per_product) {
  using Format = typename Dot::FormatType;
  constexpr int kOuts = kFewOuts<kRows>;
  const FewPlace place = few_place<kOuts>(job);
  if (place.rows == 0) return;
  const std::int64_t first_row = place.x_product * rows_per_product;
  Q8Operands<kRows> from;
  from.quants = q8.quants + first_row * job.in;
  from.scales = reinterpret_cast<const float2*>(q8.scales) + first_row * (job.in / kQ8GroupSize);
  from.in = job.in;
  few_rows(job, place, from.rows);
  GRAFT_UNROLL
  for (int o = 0; o < kOuts; ++o)
    from.weights[o] = place.weights + few_out(job, place, o) * job.row_bytes;
  float sums[kOuts][kRows] = {};
  // A lane has the same piece of every block it comes to: what depends on it is computed once.
  const int piece = place.lane % Dot::kPieces;
  const unsigned step = (kWarpSize / Dot::kPieces) << job.parts[place.job_part].warp_bits;
  const auto num_blocks =
      place.matrix < 0 ? 0U : static_cast<unsigned>(job.in / Format::kBlockValues);
  unsigned block = static_cast<unsigned>(place.part * kWarpSize + place.lane) / Dot::kPieces;
  for (; block < num_blocks; block += step)
    add_block<Dot, kRows>(from, block, piece, sums);
  write_few<kRows>(job, place, sums);
}

// The rows of a job as bytes: those of a product stand rows_per_product after the last one's.
struct Q8Job {
  LinearBatch products;
  std::span<const MatrixResult> more;  // for the same rows
  RowTiles tiles;                      // or, without tiles, the rows from first_row on:
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  Q8Rows q8;
};

using Launch = void (*)(const Q8Job& q8_job, Stream stream);

template <class Dot, int kRows>
void launch_rows(FewJob job, const Q8Rows& q8, std::int64_t rows_per_product, Stream stream) {
  const dim3 grid = lay_out(job, kFewOuts<kRows>);
  launch("linear_q8", linear_q8_kernel<Dot, kRows>, {grid, kFewThreads}, stream, job, q8,
         rows_per_product);
}

template <class Dot>
void launch_q8(const Q8Job& q8_job, Stream stream) {
  constexpr int kValuesPerWarp = Dot::FormatType::kBlockValues / Dot::kPieces * kWarpSize;
  const LinearBatch& products = q8_job.products;
  const std::int64_t in = products.stack.cols;
  if (q8_job.tiles.tiles != nullptr) {
    launch_rows<Dot, kMaxFewRows>(few_job(products, q8_job.tiles, kValuesPerWarp), q8_job.q8, 0,
                                  stream);
    return;
  }
  FewJob job = few_job(products, q8_job.first_row, q8_job.rows, kValuesPerWarp);
  for (const MatrixResult& result : q8_job.more)
    add_part(job, result, q8_job.first_row, kValuesPerWarp);
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
    launch_rows<Dot, kMaxFewRows>(job, from, rows_per_product, stream);
  }
}

template <class Dot>
struct DotFormat {
  static constexpr DType kType = Dot::FormatType::kType;
  static constexpr Launch kLaunchOfType = launch_q8<Dot>;
};

template <class Entry>
struct Entries {
  static constexpr Launch kLaunch = Entry::kLaunchOfType;
};

constexpr auto kQ8 = table_of<Launch, Entries>(FormatList<DotFormat<DotQ40>,
                                                          DotFormat<DotQ41>,
                                                          DotFormat<DotQ50>,
                                                          DotFormat<DotQ51>,
                                                          DotFormat<DotIq4Nl>,
                                                          DotFormat<DotQ80>,
                                                          DotFormat<DotQ4K>,
                                                          DotFormat<DotQ5K>,
                                                          DotFormat<DotQ6K>>{});

Launch function_for(const LinearBatch& products) {
  const Launch function = kQ8[static_cast<std::size_t>(products.stack.dtype)];
  GRAFT_CHECK(function != nullptr, "no whole-number products with ", name(products.stack.dtype));
  return function;
}

// Eight rows at a time.
void multiply(Q8Job job, Stream stream) {
  const std::int64_t rows = job.products.rows;
  for (; job.first_row < rows; job.first_row += kMaxFewRows) {
    job.rows = std::min<std::int64_t>(kMaxFewRows, rows - job.first_row);
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
  quantize("quantize_rows", Values{x}, out, rows, cols, stream);
}

void silu_mul_q8(ConstRows gate,
                 ConstRows up,
                 const Q8Rows& out,
                 std::int64_t rows,
                 std::int64_t cols,
                 Stream stream) {
  quantize("silu_mul_q8", SiluProducts{gate, up}, out, rows, cols, stream);
}

bool has_linear_q8(DType dtype) {
  return kQ8[static_cast<std::size_t>(dtype)] != nullptr;
}

void gemv_q8(const LinearBatch& products, const Q8Rows& q8, Stream stream) {
  multiply({.products = products, .more = {}, .tiles = {}, .q8 = q8}, stream);
}

void gemv_q8_grouped(std::span<const MatrixResult> results,
                     const Q8Rows& q8,
                     std::int64_t rows,
                     Stream stream) {
  GRAFT_CHECK(!results.empty() && results.size() <= kMaxGroupedMatrices, results.size(),
              " matrices");
  const MatrixResult& first = results.front();
  for (const MatrixResult& result : results) {
    GRAFT_CHECK(
        result.weight.dtype == first.weight.dtype && result.weight.cols == first.weight.cols,
        "matrices of different types or columns");
  }
  multiply({.products = one_linear(first.weight, first.bias, {}, first.y, rows),
            .more = results.subspan(1),
            .tiles = {},
            .q8 = q8},
           stream);
}

void gemv_q8_experts(const LinearBatch& products,
                     const RowTiles& rows,
                     const Q8Rows& q8,
                     Stream stream) {
  function_for(products)({.products = products, .more = {}, .tiles = rows, .q8 = q8}, stream);
}

}  // namespace graft::kernels::cuda
