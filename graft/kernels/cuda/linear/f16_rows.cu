#include "graft/kernels/cuda/formats/formats.cuh"
#include "graft/kernels/cuda/linear/linear.h"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

// Exponents of floats as these store them, 127 being that of 1.
constexpr std::uint32_t kBias = 127;
constexpr std::uint32_t kMin = kBias - 4;
constexpr std::uint32_t kMax = kBias + 14;
constexpr std::uint32_t kWanted = 10;
constexpr std::uint32_t kOfInfinity = 255;

__device__ float power_of_two(std::uint32_t exponent) {
  return __uint_as_float(exponent << 23);
}

// The exponent of the scale for a row with this largest magnitude.
__device__ std::uint32_t scale_exponent(float largest) {
  const std::uint32_t exponent = __float_as_uint(largest) >> 23;
  const bool is_comfortable = exponent >= kMin && exponent < kMax;
  if (is_comfortable || largest == 0.0F || exponent == kOfInfinity) return kBias;
  return exponent > kWanted ? exponent - kWanted : 1;
}

// `warps` of a block have one row. It is read twice: a row rarely fits into registers, but into
// caches.
__global__ void to_half_rows_kernel(
    ConstRows x, HalfRows out, std::int64_t rows, std::int64_t cols, int warps, bool vectors) {
  __shared__ float parts[kWarps];
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int row_of_block = warp / warps;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kWarps / warps) + row_of_block;
  const int step = warps * kWarpSize * kRun;
  const int first = static_cast<int>(threadIdx.x) * kRun % step;
  const std::int64_t end = row < rows ? cols : 0;
  const float* from = x.data + row * x.stride;
  float run[kRun];
  float largest = 0.0F;
  for (std::int64_t col = first; col < end; col += step) {
    load_floats(from, col, cols, vectors, run);
    GRAFT_UNROLL
    for (const float value : run)
      largest = fmaxf(largest, fabsf(value));
  }
  largest = warp_max(largest);
  if (threadIdx.x % kWarpSize == 0) parts[warp] = largest;
  __syncthreads();
  for (int i = 0; i < warps; ++i)
    largest = fmaxf(largest, parts[row_of_block * warps + i]);
  const std::uint32_t exponent = scale_exponent(largest);
  const float inverse = power_of_two(2 * kBias - exponent);
  for (std::int64_t col = first; col < end; col += step) {
    load_floats(from, col, cols, vectors, run);
    GRAFT_UNROLL
    for (float& value : run)
      value *= inverse;
    store_run(out.values + row * cols + col, cols - col, run);
  }
  if (row < rows && first == 0) out.scales[row] = power_of_two(exponent);
}

std::size_t values_bytes(std::int64_t rows, std::int64_t cols) {
  return aligned_bytes(static_cast<std::size_t>(rows * cols) * sizeof(Half));
}

}  // namespace

std::size_t half_rows_bytes(std::int64_t rows, std::int64_t cols) {
  return values_bytes(rows, cols) + aligned_bytes(static_cast<std::size_t>(rows) * sizeof(float));
}

HalfRows half_rows_at(void* memory, std::int64_t rows, std::int64_t cols) {
  auto* bytes = static_cast<std::byte*>(memory);
  return {.values = reinterpret_cast<Half*>(bytes),
          .scales = reinterpret_cast<float*>(bytes + values_bytes(rows, cols))};
}

void to_half_rows(
    ConstRows x, const HalfRows& out, std::int64_t rows, std::int64_t cols, Stream stream) {
  int warps = 1;  // a power of two, for a run per lane where there are enough
  while (warps < kWarps && warps * kWarpSize * kRun < cols)
    warps *= 2;
  const bool vectors = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0;
  launch("to_half_rows", to_half_rows_kernel, {blocks_for(rows, kWarps / warps), kThreads}, stream,
         x, out, rows, cols, warps, vectors);
}

}  // namespace graft::kernels::cuda
