// Conversion of f32 rows to F16 rows with one power-of-two scale per row (F16Rows).

#include "graft/kernels/cuda/formats/formats.cuh"
#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/linear/row_scale.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

// Grid: blocks of 8 warps, warps_per_row warps per row, 8 values per lane. The row is read twice:
// it rarely fits into registers, but the second read hits the cache. row_ids null: all rows.
__global__ void to_f16_rows_kernel(ConstRows x,
                                   const std::int32_t* row_ids,
                                   F16Rows out,
                                   std::int64_t rows,
                                   std::int64_t cols,
                                   int warps_per_row,
                                   bool vectors) {
  begin_kernel();
  __shared__ float warp_max_abs[kWarps];
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int row_of_block = warp / warps_per_row;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * (kWarps / warps_per_row) + row_of_block;
  const bool is_row = index < rows;
  const std::int64_t row = row_ids != nullptr && is_row ? row_ids[index] : index;
  const int step = warps_per_row * kWarpSize * kRun;
  const int first = static_cast<int>(threadIdx.x) * kRun % step;
  const std::int64_t end = is_row ? cols : 0;
  const float* from = x.data + row * x.stride;
  float run[kRun];
  float max_abs = 0.0F;
  for (std::int64_t col = first; col < end; col += step) {
    load_floats(from, col, cols, vectors, run);
    GRAFT_UNROLL
    for (const float value : run)
      max_abs = fmaxf(max_abs, fabsf(value));
  }
  max_abs = warp_max(max_abs);
  if (threadIdx.x % kWarpSize == 0) warp_max_abs[warp] = max_abs;
  __syncthreads();
  for (int i = 0; i < warps_per_row; ++i)
    max_abs = fmaxf(max_abs, warp_max_abs[row_of_block * warps_per_row + i]);
  const std::uint32_t exponent = scale_exponent(max_abs);
  const float inverse = power_of_two(2 * kExponentBias - exponent);
  for (std::int64_t col = first; col < end; col += step) {
    load_floats(from, col, cols, vectors, run);
    GRAFT_UNROLL
    for (float& value : run)
      value *= inverse;
    store_run(out.values + row * cols + col, cols - col, run);
  }
  if (is_row && first == 0) out.scales[row] = power_of_two(exponent);
}

std::size_t values_bytes(std::int64_t rows, std::int64_t cols) {
  return aligned_bytes(static_cast<std::size_t>(rows * cols) * sizeof(Half));
}

}  // namespace

std::size_t half_rows_bytes(std::int64_t rows, std::int64_t cols) {
  return values_bytes(rows, cols) + aligned_bytes(static_cast<std::size_t>(rows) * sizeof(float));
}

F16Rows half_rows_at(void* memory, std::int64_t rows, std::int64_t cols) {
  auto* bytes = static_cast<std::byte*>(memory);
  return {.values = reinterpret_cast<Half*>(bytes),
          .scales = reinterpret_cast<float*>(bytes + values_bytes(rows, cols))};
}

void to_half_rows(
    ConstRows x, const F16Rows& out, std::int64_t rows, std::int64_t cols, Stream stream) {
  to_half_rows_of(x, nullptr, out, rows, cols, stream);
}

void to_half_rows_of(ConstRows x,
                     const std::int32_t* row_ids,
                     const F16Rows& out,
                     std::int64_t rows,
                     std::int64_t cols,
                     Stream stream) {
  int warps_per_row = 1;  // a power of two: one run per lane if there are enough
  while (warps_per_row < kWarps && warps_per_row * kWarpSize * kRun < cols)
    warps_per_row *= 2;
  const bool vectors = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0;
  launch("to_half_rows", to_f16_rows_kernel, {blocks_for(rows, kWarps / warps_per_row), kThreads},
         stream, x, row_ids, out, rows, cols, warps_per_row, vectors);
}

}  // namespace graft::kernels::cuda
