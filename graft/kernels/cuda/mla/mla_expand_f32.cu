// Expanded latent attention in F32 on CUDA cores, for every shape. Keys are complete, with a copy
// of the RoPE columns for each head, so that attention() reads them like a KV cache.
//
// Block: 256 threads, a tile of 64 positions x 64 columns of one head, 4 x 4 per thread, 16 columns
// of the latents at a time.

#include "graft/kernels/cuda/formats/bits.cuh"
#include "graft/kernels/cuda/mla/mla_expand.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kSide = 16;  // threads of a block in each direction
constexpr int kThreads = kSide * kSide;
constexpr int kPerThread = 4;  // positions, and columns
constexpr int kTile = kSide * kPerThread;
constexpr int kStep = 16;  // columns of the latents

__device__ float value_of(float value) {
  return value;
}

__device__ float value_of(Half value) {
  return f16_to_float(value);
}

// out[row, head, col] = sum over r of latents[row, r] * weights[head, col, r].
template <class Value>
struct ExpandF32Job {
  const float* latents;
  std::int64_t latent_stride;
  const Value* weights;   // of the first head
  std::int64_t col_step;  // from column to column of the weights
  std::int64_t rank_step;
  std::int64_t rank;
  std::int64_t cols;
  std::int64_t rows;
  float* out;
  std::int64_t out_stride;  // from row to row
  std::int64_t out_step;    // from head to head
};

// Grid: (tiles of positions, tiles of columns, heads).
template <class Value>
__global__ void __launch_bounds__(kThreads) expand_f32_kernel(ExpandF32Job<Value> job) {
  begin_kernel();
  __shared__ float latents[kStep][kTile + 1];
  __shared__ float weights[kStep][kTile + 1];
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const Value* matrix = job.weights + blockIdx.z * job.cols * job.rank;
  const auto thread_row = static_cast<int>(threadIdx.x) / kSide;
  const auto thread_col = static_cast<int>(threadIdx.x) % kSide;
  float sums[kPerThread][kPerThread] = {};
  for (std::int64_t first = 0; first < job.rank; first += kStep) {
    __syncthreads();  // the step before is consumed
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kStep; i += kThreads) {
      const int side = i / kStep;
      const std::int64_t r = first + i % kStep;
      const std::int64_t row = first_row + side;
      const std::int64_t col = first_col + side;
      const bool has_row = row < job.rows && r < job.rank;
      const bool has_col = col < job.cols && r < job.rank;
      latents[i % kStep][side] = has_row ? job.latents[row * job.latent_stride + r] : 0.0F;
      weights[i % kStep][side] =
          has_col ? value_of(matrix[col * job.col_step + r * job.rank_step]) : 0.0F;
    }
    __syncthreads();
    for (int k = 0; k < kStep; ++k) {
      GRAFT_UNROLL
      for (int i = 0; i < kPerThread; ++i) {
        GRAFT_UNROLL
        for (int j = 0; j < kPerThread; ++j)
          sums[i][j] += latents[k][thread_row + i * kSide] * weights[k][thread_col + j * kSide];
      }
    }
  }
  GRAFT_UNROLL
  for (int i = 0; i < kPerThread; ++i) {
    const std::int64_t row = first_row + thread_row + i * kSide;
    GRAFT_UNROLL
    for (int j = 0; j < kPerThread; ++j) {
      const std::int64_t col = first_col + thread_col + j * kSide;
      if (row < job.rows && col < job.cols)
        job.out[row * job.out_stride + blockIdx.z * job.out_step + col] = sums[i][j];
    }
  }
}

// Copies the RoPE columns of the latents to the keys of all heads. One thread per value.
__global__ void copy_rope_kernel(MlaShape shape, ExpandedLatents expanded, std::int64_t stride) {
  begin_kernel();
  const std::int64_t item = global_thread();
  if (item >= expanded.rows * expanded.num_heads * shape.rope) return;
  const std::int64_t col = item % shape.rope;
  const std::int64_t head = item / shape.rope % expanded.num_heads;
  const std::int64_t row = item / shape.rope / expanded.num_heads;
  static_cast<float*>(
      expanded.heads)[row * stride + head * (shape.nope + shape.rope) + shape.nope + col] =
      static_cast<const float*>(
          expanded.latents)[row * (shape.rank + shape.rope) + shape.rank + col];
}

template <class Value>
void launch_expand(const ExpandF32Job<Value>& job, std::int64_t heads, Stream stream) {
  const dim3 grid(blocks_for(job.rows, kTile), blocks_for(job.cols, kTile),
                  static_cast<unsigned>(heads));
  launch("expand_latents_f32", expand_f32_kernel<Value>, {grid, kThreads}, stream, job);
}

template <class Value>
void expand(const MlaShape& shape,
            const MlaWeights& weights,
            const ExpandedLatents& expanded,
            std::int64_t stride,
            Stream stream) {
  const std::int64_t key_dim = shape.nope + shape.rope;
  auto* heads = static_cast<float*>(expanded.heads);
  ExpandF32Job<Value> job = {.latents = static_cast<const float*>(expanded.latents),
                             .latent_stride = shape.rank + shape.rope,
                             .weights = static_cast<const Value*>(weights.keys) +
                                        expanded.first_head * shape.rank * shape.nope,
                             .col_step = 1,
                             .rank_step = shape.nope,
                             .rank = shape.rank,
                             .cols = shape.nope,
                             .rows = expanded.rows,
                             .out = heads,
                             .out_stride = stride,
                             .out_step = key_dim};
  launch_expand(job, expanded.num_heads, stream);
  job.weights =
      static_cast<const Value*>(weights.values) + expanded.first_head * shape.rank * shape.value;
  job.col_step = shape.rank;
  job.rank_step = 1;
  job.cols = shape.value;
  job.out = heads + expanded.num_heads * key_dim;
  job.out_step = shape.value;
  launch_expand(job, expanded.num_heads, stream);
}

}  // namespace

void expand_latents_f32(const MlaShape& shape,
                        const MlaWeights& weights,
                        const ExpandedLatents& expanded,
                        Stream stream) {
  const std::int64_t stride = expanded.num_heads * (shape.nope + shape.rope + shape.value);
  if (weights.dtype == DType::F32) {
    expand<float>(shape, weights, expanded, stride, stream);
  } else {
    expand<Half>(shape, weights, expanded, stride, stream);
  }
  const std::int64_t items = expanded.rows * expanded.num_heads * shape.rope;
  launch("copy_rope", copy_rope_kernel, {blocks_for(items, kThreads), kThreads}, stream, shape,
         expanded, stride);
}

}  // namespace graft::kernels::cuda
