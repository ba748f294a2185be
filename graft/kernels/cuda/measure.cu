#include "graft/kernels/cuda/measure.h"

#include <algorithm>

#include "graft/kernels/cuda/launch.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// 16-byte loads that a thread has in flight. 132 SMs with 4 resident blocks or more need about 4 MB
// in flight for 5 TB/s; these are 8 MB.
constexpr int kLoads = 4;

// Grid: the resident blocks of the GPU, each reads tiles of kThreads * kLoads vectors with a grid
// stride.
__global__ void __launch_bounds__(kThreads)
    xor_words_kernel(const uint4* data, std::int64_t count, std::uint32_t* result) {
  begin_kernel();
  constexpr std::int64_t kTile = kThreads * kLoads;
  std::uint32_t value = 0;
  for (std::int64_t tile = blockIdx.x * kTile; tile < count; tile += gridDim.x * kTile) {
    uint4 words[kLoads];
    GRAFT_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t at = tile + i * kThreads + threadIdx.x;
      words[i] = at < count ? __ldg(data + at) : uint4{0, 0, 0, 0};
    }
    GRAFT_UNROLL
    for (int i = 0; i < kLoads; ++i)
      value ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
  }
  GRAFT_UNROLL
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value ^= __shfl_xor_sync(kAllLanes, value, step);
  if (threadIdx.x % kWarpSize == 0) atomicXor(result, value);
}

// Grid: one thread per pair, with a grid stride.
__global__ void fill_random_f16_kernel(std::uint32_t* pairs, std::int64_t count) {
  begin_kernel();
  constexpr std::uint32_t kSignsAndMantissas = 0x83ff83ff;
  constexpr std::uint32_t kExponents = 0x38003800;  // 2^-1 in both halves
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = global_thread(); i < count; i += step) {
    std::uint32_t bits = static_cast<std::uint32_t>(i) * 2654435761U;
    bits ^= bits >> 15;
    bits *= 2246822519U;
    bits ^= bits >> 13;
    pairs[i] = (bits & kSignsAndMantissas) | kExponents;
  }
}

__global__ void empty_kernel() {
  begin_kernel();
}

}  // namespace

void xor_words(const void* data, std::size_t bytes, std::uint32_t* result, Stream stream) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(uint4));
  int resident = 1;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, xor_words_kernel, kThreads, 0);
  const std::int64_t blocks = std::min<std::int64_t>(
      ceil_div(count, kThreads * kLoads), std::int64_t{resident} * num_multiprocessors());
  launch("xor_words", xor_words_kernel, {static_cast<unsigned>(blocks), kThreads}, stream,
         static_cast<const uint4*>(data), count, result);
}

void fill_random_f16(Half* out, std::int64_t count, Stream stream) {
  const std::int64_t pairs = count / 2;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>(ceil_div(pairs, kThreads), 16 * num_multiprocessors()));
  launch("fill_random_f16", fill_random_f16_kernel, {blocks, kThreads}, stream,
         reinterpret_cast<std::uint32_t*>(out), pairs);
}

void launch_empty(Stream stream) {
  launch("empty", empty_kernel, {1, 1}, stream);
}

}  // namespace graft::kernels::cuda
