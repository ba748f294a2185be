// Expanded latent attention (MLA): the latents of the cache as F16 rows, and the keys and values of
// heads computed from them on tensor cores.
//
// expand_kernel, block: 4 warps, a tile of 128 positions x 128 columns of one head's keys or
// values, 64 x 64 per warp, 64 columns of the latents at a time:
//
//    ExpandMemory, 98,304 bytes
//      stages[3].latents   [128 positions][64] F16
//      stages[3].weights   [128 columns][64] F16, or [64][128] when they are stored transposed
//
// The vectors of a row are permuted as in attention_prefill.cu.

#include "graft/kernels/cuda/mla/mla_expand.cuh"

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/mma.cuh"
#include "graft/kernels/cuda/attention/vectors.cuh"
#include "graft/kernels/cuda/row_position.cuh"

// Code below sm_80 has no mma instructions and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kBlocksPerSm = 2;
constexpr int kTile = 128;     // positions, and columns of the result
constexpr int kWarpTile = 64;  // of both
constexpr int kStep = 64;      // columns of the latents
constexpr int kStages = 3;
constexpr int kRowsPerCopy = kThreads / kLineVectors;
// The result goes through shared memory for whole-vector stores; rows padded by 16 bytes.
constexpr int kResultStride = kTile + kVector;
constexpr int kGatherRows = 8;  // warps of a block of gather_kernel

struct ExpandMemory {
  struct {
    Half latents[kTile * kStep];
    Half weights[kTile * kStep];
  } stages[kStages];
};
static_assert(kTile * kResultStride * sizeof(Half) <= sizeof(ExpandMemory));

// One product per head and part: out[rows, cols] = latents[rows, rank] weights^T.
struct ExpandJob {
  const Half* latents;  // [rows, rank + rope]
  std::int64_t latent_stride;
  const Half* weights;  // of the first head: [cols, rank], transposed: [rank, cols]
  int rank;
  int cols;
  std::int64_t rows;
  Half* out;
  std::int64_t out_stride;  // from row to row
  std::int64_t out_step;    // from head to head
};

// Starts async copies of the kRows x kCols values at `from` whose rows are below num_rows and
// columns below num_cols; zeros elsewhere.
template <int kRows, int kCols>
__device__ void copy_block_async(
    const Half* from, std::int64_t stride, std::int64_t num_rows, int num_cols, std::uint32_t to) {
  const auto first_row = static_cast<int>(threadIdx.x) / kLineVectors;
  const auto vector = static_cast<int>(threadIdx.x) % kLineVectors;
  GRAFT_UNROLL
  for (int line = 0; line < kCols / kLine; ++line) {
    const int col = line * kLine + vector * kVector;
    const std::uint32_t address =
        vector_address<kCols>(to, first_row, line * kLineVectors + vector);
    GRAFT_UNROLL
    for (int i = 0; i < kRows / kRowsPerCopy; ++i) {
      const int row = first_row + i * kRowsPerCopy;
      const bool exists = row < num_rows && col < num_cols;
      cp_async_16_or_zero(address + static_cast<std::uint32_t>(i * kRowsPerCopy * kCols * 2),
                          exists ? from + row * stride + col : from, exists);
    }
  }
}

// Columns [first, first + kStep) of the latents and weights.
template <bool kTransposed>
__device__ void start_step_copies(const ExpandJob& job,
                                  std::int64_t first_row,
                                  int first,
                                  std::uint32_t latents,
                                  std::uint32_t weights) {
  const std::int64_t matrix = static_cast<std::int64_t>(job.rank) * job.cols * blockIdx.y;
  copy_block_async<kTile, kStep>(job.latents + first_row * job.latent_stride + first,
                                 job.latent_stride, job.rows - first_row, job.rank - first,
                                 latents);
  if constexpr (kTransposed) {
    copy_block_async<kStep, kTile>(
        job.weights + matrix + static_cast<std::int64_t>(first) * job.cols, job.cols,
        job.rank - first, job.cols, weights);
  } else {
    copy_block_async<kTile, kStep>(job.weights + matrix + first, job.rank, job.cols,
                                   job.rank - first, weights);
  }
}

using Sums = float[kWarpTile / 16][kWarpTile / 8][4];

// Adds the products of one step; `row` and `col` are the first of the warp.
template <bool kTransposed>
__device__ void add_step(
    std::uint32_t latents, std::uint32_t weights, int row, int col, Sums& sums) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::uint32_t a_row =
      vector_address<kStep>(latents, row + lane / 8 % 2 * 8 + lane % 8, lane / 16);
  const std::uint32_t b_row =
      kTransposed
          ? vector_address<kTile>(weights, lane / 8 % 2 * 8 + lane % 8, col / kVector + lane / 16)
          : vector_address<kStep>(weights, col + lane / 16 * 8 + lane % 8, lane / 8 % 2);
  GRAFT_UNROLL
  for (int k = 0; k < kStep / 16; ++k) {
    std::uint32_t a[kWarpTile / 16][4];
    GRAFT_UNROLL
    for (int m = 0; m < kWarpTile / 16; ++m)
      ldmatrix(advance(a_row, 2 * k) + m * 16 * kStep * 2, a[m]);
    GRAFT_UNROLL
    for (int n = 0; n < kWarpTile / 8; n += 2) {
      std::uint32_t b[4];
      if constexpr (kTransposed) {
        ldmatrix_transposed(advance(b_row, n) + k * 16 * kTile * 2, b);
      } else {
        ldmatrix(advance(b_row, 2 * k) + n * 8 * kStep * 2, b);
      }
      GRAFT_UNROLL
      for (int m = 0; m < kWarpTile / 16; ++m) {
        MmaF16::mma(a[m], b[0], b[1], sums[m][n]);
        MmaF16::mma(a[m], b[2], b[3], sums[m][n + 1]);
      }
    }
  }
}

__device__ void write_result(
    const ExpandJob& job, std::int64_t first_row, int row, int col, const Sums& sums) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  auto* result = dynamic_shared<Half>();
  const std::uint32_t to = shared_address(result);
  __syncthreads();  // the last step is consumed
  GRAFT_UNROLL
  for (int m = 0; m < kWarpTile / 16; ++m) {
    GRAFT_UNROLL
    for (int n = 0; n < kWarpTile / 8; ++n) {
      GRAFT_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int at =
            (row + 16 * m + lane / 4 + 8 * half) * kResultStride + col + 8 * n + lane % 4 * 2;
        store_shared(to + static_cast<std::uint32_t>(at * 2),
                     MmaF16::pack(sums[m][n][2 * half], sums[m][n][2 * half + 1]));
      }
    }
  }
  __syncthreads();
  constexpr int kRowVectors = kTile / kVector;
  Half* out = job.out + blockIdx.y * job.out_step;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kRowVectors; i += kThreads) {
    const int out_col = i % kRowVectors * kVector;
    const std::int64_t out_row = first_row + i / kRowVectors;
    if (out_row >= job.rows || out_col >= job.cols) continue;
    *reinterpret_cast<uint4*>(out + out_row * job.out_stride + out_col) =
        *reinterpret_cast<const uint4*>(result + i / kRowVectors * kResultStride + out_col);
  }
}

// Grid: (tiles of positions, heads).
template <bool kTransposed>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) expand_kernel(ExpandJob job) {
  begin_kernel();
#if GRAFT_HAS_MMA
  auto& shared = *dynamic_shared<ExpandMemory>();
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int row = warp / 2 * kWarpTile;
  const int col = warp % 2 * kWarpTile;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int num_steps = (job.rank + kStep - 1) / kStep;
  const auto start = [&](int step) {
    auto& stage = shared.stages[step % kStages];
    if (step < num_steps) {
      start_step_copies<kTransposed>(job, first_row, step * kStep, shared_address(stage.latents),
                                     shared_address(stage.weights));
    }
    cp_async_commit();
  };
  Sums sums;
  GRAFT_UNROLL
  for (auto& fragments : sums) {
    GRAFT_UNROLL
    for (auto& fragment : fragments)
      fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0F;
  }
  for (int step = 0; step < kStages - 1; ++step)
    start(step);
  for (int step = 0; step < num_steps; ++step) {
    cp_async_wait<kStages - 2>();
    __syncthreads();  // the step is there, the one before is consumed
    start(step + kStages - 1);
    const auto& stage = shared.stages[step % kStages];
    add_step<kTransposed>(shared_address(stage.latents), shared_address(stage.weights), row, col,
                          sums);
  }
  cp_async_wait<0>();
  write_result(job, first_row, row, col, sums);
#else
  __trap();
#endif
}

__device__ void store_latent(Half* to, float value) {
  *to = to_half(value);
}

__device__ void store_latent(float* to, float value) {
  *to = value;
}

// Grid: rows / kGatherRows, one warp per row.
template <class Cache, class Value>
__global__ void gather_kernel(
    AttentionBatch batch, const void* cache, int cols, std::int64_t rows, Value* out) {
  begin_kernel();
  const std::int64_t row = global_thread() / kWarpSize;
  if (row >= rows) return;
  const CacheRowAt from = cache_row_at<Cache>(cache, cache_slot_of_packed(batch, row), cols);
  for (int col = static_cast<int>(threadIdx.x) % kWarpSize; col < cols; col += kWarpSize)
    store_latent(out + row * cols + col, Cache::load(from, col));
}

using Gather = void (*)(const AttentionBatch& batch,
                        const CacheRows& cache,
                        const ExpandedLatents& to,
                        Stream stream);

template <class Cache>
void launch_gather(const AttentionBatch& batch,
                   const CacheRows& cache,
                   const ExpandedLatents& to,
                   Stream stream) {
  const auto cols = static_cast<int>(cache.key_size);
  const LaunchShape grid = {blocks_for(to.rows, kGatherRows), kGatherRows * kWarpSize};
  if (to.dtype == DType::F16) {
    launch("gather_latents", gather_kernel<Cache, Half>, grid, stream, batch, cache.data, cols,
           to.rows, static_cast<Half*>(to.latents));
  } else {
    launch("gather_latents", gather_kernel<Cache, float>, grid, stream, batch, cache.data, cols,
           to.rows, static_cast<float*>(to.latents));
  }
}

template <class Cache>
struct GatherLauncher {
  static constexpr Gather kLaunch = launch_gather<Cache>;
};
constexpr auto kGathers = cache_table<Gather, GatherLauncher>();

template <bool kTransposed>
void launch_expand(const ExpandJob& job, std::int64_t heads, Stream stream) {
  const dim3 grid(blocks_for(job.rows, kTile), static_cast<unsigned>(heads));
  launch_with_shared("expand_latents", expand_kernel<kTransposed>,
                     {grid, kThreads, sizeof(ExpandMemory)}, stream, job);
}

void expand_f16(const MlaShape& shape,
                const MlaWeights& weights,
                const ExpandedLatents& expanded,
                Stream stream) {
  const std::int64_t step = shape.nope + shape.value;
  auto* heads = static_cast<Half*>(expanded.heads);
  ExpandJob job = {.latents = static_cast<const Half*>(expanded.latents),
                   .latent_stride = shape.rank + shape.rope,
                   .weights = static_cast<const Half*>(weights.keys) +
                              expanded.first_head * shape.rank * shape.nope,
                   .rank = static_cast<int>(shape.rank),
                   .cols = static_cast<int>(shape.nope),
                   .rows = expanded.rows,
                   .out = heads,
                   .out_stride = expanded.num_heads * step,
                   .out_step = step};
  launch_expand<true>(job, expanded.num_heads, stream);
  job.weights =
      static_cast<const Half*>(weights.values) + expanded.first_head * shape.rank * shape.value;
  job.cols = static_cast<int>(shape.value);
  job.out = heads + shape.nope;
  launch_expand<false>(job, expanded.num_heads, stream);
}

AttentionShape attention_shape(const MlaShape& shape,
                               float scale,
                               const ExpandedLatents& expanded) {
  const std::int64_t key_dim = shape.nope + shape.rope;
  const bool is_f16 = expanded.dtype == DType::F16;
  return {.num_heads = expanded.num_heads,
          .num_kv_heads = expanded.num_heads,
          .key_dim = key_dim,
          .value_dim = shape.value,
          .value_offset = is_f16 ? 0 : expanded.num_heads * key_dim,
          .window = 0,
          .scale = scale,
          .arithmetic = is_f16 ? Arithmetic::F16 : Arithmetic::F32};
}

// Vectors of 8 values in all rows, and one tile of columns per head.
bool fits_expand_kernel(const MlaShape& shape) {
  const auto fits = [](std::int64_t dim) { return dim % kVector == 0 && dim <= kTile; };
  return fits(shape.nope) && fits(shape.value) && shape.rope % kVector == 0 &&
         shape.rank % kVector == 0 && sizeof(ExpandMemory) <= max_shared_bytes() &&
         is_compiled_for(80, expand_kernel<true>);
}

}  // namespace

DType expanded_type(const MlaShape& shape,
                    const MlaWeights& weights,
                    DType cache,
                    Arithmetic arithmetic) {
  const bool is_f16 = arithmetic == Arithmetic::F16 && weights.dtype == DType::F16 &&
                      cache != DType::F32 && fits_expand_kernel(shape) &&
                      can_attend_expanded(attention_shape(shape, 1.0F, {.num_heads = 1}));
  return is_f16 ? DType::F16 : DType::F32;
}

std::size_t latents_bytes(const MlaShape& shape, DType dtype, std::int64_t rows) {
  return bytes_of(dtype, rows * (shape.rank + shape.rope));
}

std::size_t heads_bytes(const MlaShape& shape, DType dtype, std::int64_t rows, std::int64_t heads) {
  const std::int64_t rope = dtype == DType::F16 ? 0 : shape.rope;  // F32: a copy for each head
  return bytes_of(dtype, rows * heads * (shape.nope + rope + shape.value));
}

void gather_latents(const AttentionBatch& batch,
                    const CacheRows& cache,
                    const ExpandedLatents& to,
                    Stream stream) {
  GRAFT_CHECK(is_cache_type(cache.dtype), "unsupported KV cache dtype ", name(cache.dtype));
  kGathers[static_cast<std::size_t>(cache.dtype)](batch, cache, to, stream);
}

void expand_latents(const MlaShape& shape,
                    const MlaWeights& weights,
                    const ExpandedLatents& expanded,
                    Stream stream) {
  if (expanded.dtype == DType::F16) {
    expand_f16(shape, weights, expanded, stream);
  } else {
    expand_latents_f32(shape, weights, expanded, stream);
  }
}

ExpandedAttention plan_expanded(const MlaShape& shape,
                                float scale,
                                const AttentionBatch& batch,
                                const ExpandedLatents& expanded) {
  const AttentionShape attention = attention_shape(shape, scale, expanded);
  return {attention, expanded.dtype == DType::F16 ? plan_attention_expanded(attention, batch)
                                                  : plan_attention(attention, batch, DType::F32)};
}

void attend_expanded(const MlaShape& shape,
                     const ExpandedAttention& attention,
                     const AttentionBatch& batch,
                     const ExpandedLatents& expanded,
                     ConstRows queries,
                     Rows out,
                     void* scratch,
                     Stream stream) {
  AttentionBatch packed = batch;
  packed.block_tables = nullptr;
  queries.data += expanded.first_head * attention.shape.key_dim;
  out.data += expanded.first_head * shape.value;
  if (expanded.dtype == DType::F16) {
    const ExpandedKeys keys = {.rows = static_cast<const Half*>(expanded.heads),
                               .own_dim = shape.nope,
                               .shared = static_cast<const Half*>(expanded.latents) + shape.rank,
                               .shared_stride = shape.rank + shape.rope};
    attention_expanded(attention.shape, packed, attention.plan, keys, queries, out, scratch,
                       stream);
  } else {
    const CacheRows rows = {.dtype = DType::F32,
                            .data = expanded.heads,
                            .key_size = expanded.num_heads * attention.shape.key_dim,
                            .value_size = expanded.num_heads * shape.value};
    kernels::cuda::attention(attention.shape, packed, attention.plan, rows, queries, out, scratch,
                             stream);
  }
}

}  // namespace graft::kernels::cuda
