#include "graft/kernels/cuda/rope.h"

#include "graft/kernels/cuda/launch.cuh"

namespace graft::cuda {
namespace {

constexpr int kThreads = 128;

// Dynamic NTK: a token at position p counts the p + 1 tokens up to itself, so that its key does not
// depend on how the prompt was cut.
__device__ float stretched_frequency(const RopeTurns& rope, std::int64_t position, std::int64_t i) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto len = static_cast<double>(position + 1);
  const double stretch =
      rope.factor * len / static_cast<double>(rope.max_position_embeddings) - (rope.factor - 1.0);
  const double theta = rope.theta * pow(stretch, dim / (dim - 2.0));
  return static_cast<float>(1.0 / pow(theta, static_cast<double>(2 * i) / dim));
}

// A thread per angle.
__global__ void rope_turns_kernel(RopeTurns rope,
                                  const std::int32_t* positions,
                                  std::int64_t rows,
                                  float* turns) {
  const std::int64_t half = rope.rotary_dim / 2;
  const std::int64_t row = global_thread() / half;
  const std::int64_t i = global_thread() % half;
  if (row >= rows) return;
  const std::int64_t position = positions[row];
  float inv_freq = rope.inv_freq[i];
  if (rope.dynamic && position + 1 > rope.max_position_embeddings) {
    inv_freq = stretched_frequency(rope, position, i);
  }
  // The angle is rounded to float as in the models' training code, its cosine is not.
  const double angle = __fmul_rn(static_cast<float>(position), inv_freq);
  float* to = turns + row * rope.rotary_dim + i;
  to[0] = __fmul_rn(static_cast<float>(cos(angle)), rope.magnitude);
  to[half] = __fmul_rn(static_cast<float>(sin(angle)), rope.magnitude);
}

// A block per row, a thread per pair of values. Sums of products, not fused, as on the CPU.
__global__ void rotate_kernel(Rows x, const float* turns, RotatedHeads heads) {
  const std::int64_t half = heads.rotary_dim / 2;
  const float* cosines = turns + blockIdx.x * heads.rotary_dim;
  const float* sines = cosines + half;
  float* row = x.data + blockIdx.x * x.stride;
  for (std::int64_t pair = threadIdx.x; pair < heads.num_heads * half; pair += blockDim.x) {
    const std::int64_t i = pair % half;
    float* head = row + pair / half * heads.head_dim;
    float& first = head[heads.interleaved ? 2 * i : i];
    float& second = head[heads.interleaved ? 2 * i + 1 : i + half];
    const float a = first;
    const float b = second;
    first = __fsub_rn(__fmul_rn(a, cosines[i]), __fmul_rn(b, sines[i]));
    second = __fadd_rn(__fmul_rn(b, cosines[i]), __fmul_rn(a, sines[i]));
  }
}

}  // namespace

std::size_t rope_turns_bytes(std::int64_t rows, std::int64_t rotary_dim) {
  return static_cast<std::size_t>(rows * rotary_dim) * sizeof(float);
}

void rope_turns(const RopeTurns& rope,
                const std::int32_t* positions,
                std::int64_t rows,
                float* turns,
                Stream stream) {
  launch("rope_turns", rope_turns_kernel,
         {blocks_for(rows * (rope.rotary_dim / 2), kThreads), kThreads}, stream, rope, positions,
         rows, turns);
}

void rotate(
    Rows x, const float* turns, std::int64_t rows, const RotatedHeads& heads, Stream stream) {
  launch("rotate", rotate_kernel, {static_cast<unsigned>(rows), 2 * kThreads}, stream, x, turns,
         heads);
}

}  // namespace graft::cuda
