#include "graft/kernels/cuda/attention/rope.cuh"

#include <algorithm>

namespace graft::kernels::cuda {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kPairsPerThread = 4;  // value pairs

// Grid: (rows, pair blocks), kPairsPerThread pairs per thread. Shared memory: cos[half], sin[half].
// The loads are in flight while the cosines are computed.
__global__ void __launch_bounds__(kMaxThreads)
    rotate_kernel(Rows x, RopeConfig rope, const std::int32_t* positions, RotatedHeads heads) {
  begin_kernel();
  const auto half = static_cast<int>(rope.rotary_dim / 2);
  const auto num_pairs = static_cast<int>(heads.num_heads) * half;
  const int first_pair = static_cast<int>(blockIdx.y * blockDim.x) * kPairsPerThread;
  float* row = x.data + blockIdx.x * x.stride;
  float* firsts[kPairsPerThread];
  float* seconds[kPairsPerThread];
  float a[kPairsPerThread] = {};
  float b[kPairsPerThread] = {};
  GRAFT_UNROLL
  for (int p = 0; p < kPairsPerThread; ++p) {
    const int pair = first_pair + static_cast<int>(p * blockDim.x + threadIdx.x);
    const int i = pair % half;
    float* head = row + pair / half * heads.head_dim;
    firsts[p] = head + first_of_pair(rope, i);
    seconds[p] = head + second_of_pair(rope, i, half);
    if (pair >= num_pairs) continue;
    a[p] = *firsts[p];
    b[p] = *seconds[p];
  }
  auto* cosines = dynamic_shared<float>();
  const float* sines = cosines + half;
  compute_cos_sin(rope, positions[blockIdx.x], half, cosines);
  __syncthreads();
  GRAFT_UNROLL
  for (int p = 0; p < kPairsPerThread; ++p) {
    const int pair = first_pair + static_cast<int>(p * blockDim.x + threadIdx.x);
    if (pair >= num_pairs) continue;
    const float2 rotated = rotate_pair(a[p], b[p], cosines[pair % half], sines[pair % half]);
    *firsts[p] = rotated.x;
    *seconds[p] = rotated.y;
  }
}

}  // namespace

void rotate(Rows x,
            const RopeConfig& rotation,
            const std::int32_t* positions,
            std::int64_t rows,
            const RotatedHeads& heads,
            Stream stream) {
  const std::int64_t pairs = heads.num_heads * (rotation.rotary_dim / 2);
  // At least one thread per cosine and sine.
  const std::int64_t wanted = std::max(ceil_div(pairs, kPairsPerThread), rotation.rotary_dim);
  const std::int64_t threads =
      std::min<std::int64_t>(ceil_div(wanted, kWarpSize) * kWarpSize, kMaxThreads);
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(pairs, threads * kPairsPerThread));
  const std::size_t bytes = static_cast<std::size_t>(rotation.rotary_dim) * sizeof(float);
  launch("rotate", rotate_kernel, {grid, static_cast<unsigned>(threads), bytes}, stream, x,
         rotation, positions, heads);
}

}  // namespace graft::kernels::cuda
