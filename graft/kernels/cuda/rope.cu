#include "graft/kernels/cuda/rope.h"

#include <algorithm>

#include "graft/kernels/cuda/launch.cuh"

namespace graft::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kPairs = 4;  // of values, that a thread rotates

// Dynamic NTK: a token at position p counts the p + 1 tokens up to itself, so that its key does not
// depend on how the prompt was cut.
__device__ float stretched_frequency(const Rotation& rope, std::int64_t position, std::int64_t i) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto len = static_cast<double>(position + 1);
  const double stretch =
      rope.factor * len / static_cast<double>(rope.max_position_embeddings) - (rope.factor - 1.0);
  const double theta = rope.theta * pow(stretch, dim / (dim - 2.0));
  return static_cast<float>(1.0 / pow(theta, static_cast<double>(2 * i) / dim));
}

__device__ float frequency(const Rotation& rope, std::int64_t position, int i) {
  if (rope.dynamic && position + 1 > rope.max_position_embeddings) {
    return stretched_frequency(rope, position, i);
  }
  return rope.inv_freq[i];
}

// turns[rotary_dim]: the cosines of a row's angles, then their sines. A thread has one of either.
__device__ void make_turns(const Rotation& rope, std::int64_t position, int half, float* turns) {
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * half; i += static_cast<int>(blockDim.x)) {
    const float inv_freq = frequency(rope, position, i % half);
    // The angle is rounded to float as in the models' training code, its cosine is not.
    const double angle = __fmul_rn(static_cast<float>(position), inv_freq);
    const double turn = i < half ? cos(angle) : sin(angle);
    turns[i] = __fmul_rn(static_cast<float>(turn), rope.magnitude);
  }
}

// A block has kPairs pairs of values of one row for each thread. They are on their way while the
// cosines are computed. Sums of products, not fused, as on the CPU.
__global__ void __launch_bounds__(kMostThreads)
    rotate_kernel(Rows x, Rotation rope, const std::int32_t* positions, RotatedHeads heads) {
  const auto half = static_cast<int>(rope.rotary_dim / 2);
  const auto num_pairs = static_cast<int>(heads.num_heads) * half;
  const int first_pair = static_cast<int>(blockIdx.y * blockDim.x) * kPairs;
  float* row = x.data + blockIdx.x * x.stride;
  float* firsts[kPairs];
  float* seconds[kPairs];
  float a[kPairs] = {};
  float b[kPairs] = {};
  GRAFT_UNROLL
  for (int p = 0; p < kPairs; ++p) {
    const int pair = first_pair + static_cast<int>(p * blockDim.x + threadIdx.x);
    const int i = pair % half;
    float* head = row + pair / half * heads.head_dim;
    firsts[p] = head + (rope.interleaved ? 2 * i : i);
    seconds[p] = head + (rope.interleaved ? 2 * i + 1 : i + half);
    if (pair >= num_pairs) continue;
    a[p] = *firsts[p];
    b[p] = *seconds[p];
  }
  auto* cosines = dynamic_shared<float>();
  const float* sines = cosines + half;
  make_turns(rope, positions[blockIdx.x], half, cosines);
  __syncthreads();
  GRAFT_UNROLL
  for (int p = 0; p < kPairs; ++p) {
    const int pair = first_pair + static_cast<int>(p * blockDim.x + threadIdx.x);
    if (pair >= num_pairs) continue;
    const float cosine = cosines[pair % half];
    const float sine = sines[pair % half];
    *firsts[p] = __fsub_rn(__fmul_rn(a[p], cosine), __fmul_rn(b[p], sine));
    *seconds[p] = __fadd_rn(__fmul_rn(b[p], cosine), __fmul_rn(a[p], sine));
  }
}

}  // namespace

void rotate(Rows x,
            const Rotation& rotation,
            const std::int32_t* positions,
            std::int64_t rows,
            const RotatedHeads& heads,
            Stream stream) {
  const std::int64_t pairs = heads.num_heads * (rotation.rotary_dim / 2);
  // At least a thread for every cosine and sine.
  const std::int64_t wanted = std::max(ceil_div(pairs, kPairs), rotation.rotary_dim);
  const std::int64_t threads =
      std::min<std::int64_t>(ceil_div(wanted, kWarp) * kWarp, kMostThreads);
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(pairs, threads * kPairs));
  const std::size_t bytes = static_cast<std::size_t>(rotation.rotary_dim) * sizeof(float);
  launch("rotate", rotate_kernel, {grid, static_cast<unsigned>(threads), bytes}, stream, x,
         rotation, positions, heads);
}

}  // namespace graft::cuda
