#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/dot_q8.cuh"
#include "graft/kernels/cuda/linear_few.cuh"

namespace graft::cuda {
namespace {

constexpr int kGroup = 32;  // values that share a step

// A warp per group of 32 values.
__global__ void quantize_kernel(ConstRows x, Q8Rows out, std::int64_t rows, std::int64_t cols) {
  const std::int64_t groups_per_row = cols / kGroup;
  const std::int64_t group = global_thread() / kWarp;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row = group / groups_per_row;
  if (row >= rows) return;
  const float value = x.data[row * x.stride + group % groups_per_row * kGroup + lane];
  const float largest = warp_max(fabsf(value));
  const float step = largest / 127.0F;
  const int code = largest > 0.0F ? __float2int_rn(value / step) : 0;
  int sum = code;
  GRAFT_UNROLL
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  out.quants[group * kGroup + lane] = static_cast<std::int8_t>(code);
  if (lane == 0) {
    reinterpret_cast<float2*>(out.scales)[group] =
        make_float2(step, step * static_cast<float>(sum));
  }
}

template <class Dot, int kRows>
__global__ void __launch_bounds__(kFewThreads)
    linear_q8_kernel(FewJob job, Q8Rows q8, std::int64_t rows_per_product) {
  using Format = typename Dot::FormatType;
  constexpr int kGroups = Format::kBlockValues / kGroup;
  const FewPlace place = few_place(job);
  const std::int64_t first_row = place.x_product * rows_per_product;
  const auto* scales = reinterpret_cast<const float2*>(q8.scales);
  float sums[kFewOuts][kRows] = {};
  // A lane has the same piece of every block it comes to: what depends on it is computed once.
  const int piece = place.lane % Dot::kPieces;
  const unsigned lane_block = static_cast<unsigned>(place.part * kWarp + place.lane) / Dot::kPieces;
  const unsigned step = static_cast<unsigned>(job.warps) * kWarp / Dot::kPieces;
  const auto num_blocks =
      place.matrix < 0 ? 0U : static_cast<unsigned>(job.in / Format::kBlockValues);
  for (unsigned block = lane_block; block < num_blocks; block += step) {
    typename Dot::Weights weights[kFewOuts];
    GRAFT_UNROLL
    for (int o = 0; o < kFewOuts; ++o)
      weights[o] = Dot::weights(place.weights[o] + std::size_t{block} * Format::kBlockBytes, piece);
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first_row + (r < job.rows ? r : 0);
      const Q8Block x = {q8.quants + row * job.in + std::size_t{block} * Format::kBlockValues,
                         scales + row * (job.in / kGroup) + std::size_t{block} * kGroups};
      const typename Dot::Bytes bytes = Dot::bytes(x, piece);
      GRAFT_UNROLL
      for (int o = 0; o < kFewOuts; ++o)
        sums[o][r] += Dot::dot(weights[o], bytes);
    }
  }
  write_few<kRows>(job, place, sums);
}

using Launch = void (*)(const LinearBatch& products,
                        const Q8Rows& q8,
                        std::int64_t first_row,
                        std::int64_t rows,
                        Stream stream);

template <class Dot>
void launch_q8(const LinearBatch& products,
               const Q8Rows& q8,
               std::int64_t first_row,
               std::int64_t rows,
               Stream stream) {
  constexpr int kValuesPerWarp = Dot::FormatType::kBlockValues / Dot::kPieces * kWarp;
  const FewLaunch few = few_launch(products, first_row, rows, kValuesPerWarp);
  const std::int64_t in = products.stack.cols;
  const Q8Rows from = {q8.quants + first_row * in, q8.scales + first_row * (in / kGroup) * 2};
  const std::int64_t rows_per_product = products.x_batch_stride / in;
  const auto run = [&](auto kernel) {
    launch("linear_q8", kernel, {few.grid, kFewThreads}, stream, few.job, from, rows_per_product);
  };
  if (rows == 1) {
    run(linear_q8_kernel<Dot, 1>);
  } else if (rows == 2) {
    run(linear_q8_kernel<Dot, 2>);
  } else if (rows <= 4) {
    run(linear_q8_kernel<Dot, 4>);
  } else {
    run(linear_q8_kernel<Dot, kMostFewRows>);
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
                                                          DotFormat<DotQ80>,
                                                          DotFormat<DotQ4K>,
                                                          DotFormat<DotQ5K>,
                                                          DotFormat<DotQ6K>>{});

std::size_t quants_bytes(std::int64_t rows, std::int64_t cols) {
  return aligned_bytes(static_cast<std::size_t>(rows * cols));
}

}  // namespace

std::size_t q8_rows_bytes(std::int64_t rows, std::int64_t cols) {
  const auto groups = static_cast<std::size_t>(rows * (cols / kGroup));
  return quants_bytes(rows, cols) + aligned_bytes(groups * 2 * sizeof(float));
}

Q8Rows q8_rows_at(void* memory, std::int64_t rows, std::int64_t cols) {
  auto* bytes = static_cast<std::byte*>(memory);
  return {.quants = reinterpret_cast<std::int8_t*>(bytes),
          .scales = reinterpret_cast<float*>(bytes + quants_bytes(rows, cols))};
}

void quantize_rows(
    ConstRows x, const Q8Rows& out, std::int64_t rows, std::int64_t cols, Stream stream) {
  GRAFT_CHECK(cols % kGroup == 0, cols, " columns");
  constexpr int kThreads = 256;
  launch("quantize_rows", quantize_kernel, {blocks_for(rows * cols, kThreads), kThreads}, stream, x,
         out, rows, cols);
}

bool has_linear_q8(DType dtype) {
  return kQ8[static_cast<std::size_t>(dtype)] != nullptr;
}

void linear_few_q8(const LinearBatch& products, const Q8Rows& q8, Stream stream) {
  const Launch function = kQ8[static_cast<std::size_t>(products.stack.dtype)];
  GRAFT_CHECK(function != nullptr, "no whole-number products with ", name(products.stack.dtype));
  for (std::int64_t row = 0; row < products.rows; row += kMostFewRows) {
    function(products, q8, row, std::min<std::int64_t>(kMostFewRows, products.rows - row), stream);
  }
}

}  // namespace graft::cuda
