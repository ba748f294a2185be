#include "graft/kernels/cuda/attention/attention.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/attention.cuh"

namespace graft::kernels::cuda {
namespace {

// Four blocks on each of 132 SMs (H100, H200) fill the GPU.
constexpr std::int64_t kTargetBlocks = 528;

// Merging takes about 3 µs: shorter contexts stay one split.
constexpr SplitRule kDefaultRule = {.max_unsplit = 256, .min_len = 256};
constexpr SplitRule kDecodeRule = {.max_unsplit = 512, .min_len = 256};
// Decode tokens of latent attention: cache rows are long, so splits pay off earlier, and earlier
// still with many heads.
constexpr SplitRule kMlaRule = {.max_unsplit = 256, .min_len = 128};
constexpr SplitRule kMlaManyHeadsRule = {.max_unsplit = 64, .min_len = 64};
// A split starts at a chunk boundary of every kernel.
constexpr std::int64_t kSplitAlignment = 64;

constexpr int kMergeThreads = 128;
constexpr int kMergeUnroll = 8;  // loads in flight per thread

// Merges the partial states of a row's splits into `out`. Grid: (sequence * max_tokens + token,
// head), one thread per output column.
__global__ void __launch_bounds__(kMergeThreads) merge_splits_kernel(AttentionJob job) {
  begin_kernel();
  __shared__ float factors[kMaxSplits];
  const std::int64_t sequence = div_u32(blockIdx.x, job.batch.max_tokens);
  const std::int64_t token = blockIdx.x - sequence * job.batch.max_tokens;
  const std::int64_t num_tokens = job.batch.num_tokens[sequence];
  if (token >= num_tokens) return;
  const std::int64_t row = job.batch.first_rows[sequence] + token;
  const std::int64_t position = job.batch.context_lens[sequence] - num_tokens + token;
  const std::int64_t len = split_len(job.splits, job.batch.context_lens[sequence]);
  const std::int64_t first = div_u32(window_begin(job.shape.window, position), len);
  const auto count = static_cast<int>(div_u32(position, len) - first) + 1;
  const std::int64_t state_idx =
      (first * job.batch.num_rows + row) * job.shape.num_heads + blockIdx.y;
  const std::int64_t step = job.batch.num_rows * job.shape.num_heads;  // states per split
  // Every warp loads the states of all splits, two per lane.
  static_assert(kMaxSplits == 2 * kWarpSize);
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  float2 states[2];
  GRAFT_UNROLL
  for (int i = 0; i < 2; ++i) {
    const int split = lane + i * kWarpSize;
    states[i] =
        split < count ? job.partials.max_sum[state_idx + split * step] : make_float2(kNegInf, 0);
  }
  const float max = warp_max(fmaxf(states[0].x, states[1].x));
  const float lane_factors[2] = {exp2f(states[0].x - max), exp2f(states[1].x - max)};
  const float sum = warp_sum(states[0].y * lane_factors[0] + states[1].y * lane_factors[1]);
  if (threadIdx.x < kWarpSize) {
    factors[lane] = lane_factors[0];
    factors[lane + kWarpSize] = lane_factors[1];
  }
  __syncthreads();
  const auto value_dim = static_cast<int>(job.shape.value_dim);
  float* to = job.out.data + row * job.out.stride + blockIdx.y * job.shape.value_dim;
  for (int col = static_cast<int>(threadIdx.x); col < value_dim; col += kMergeThreads) {
    const float* from = job.partials.values + state_idx * value_dim + col;
    float value = 0.0F;
    for (int split = 0; split < count; split += kMergeUnroll) {
      float values[kMergeUnroll];
      GRAFT_UNROLL
      for (int i = 0; i < kMergeUnroll; ++i)
        values[i] = split + i < count ? from[(split + i) * step * value_dim] : 0.0F;
      GRAFT_UNROLL
      for (int i = 0; i < kMergeUnroll; ++i)
        value += split + i < count ? values[i] * factors[split + i] : 0.0F;
    }
    to[col] = value * (1.0F / sum);  // as without splits
  }
}

std::int64_t rows_per_kv_head(const AttentionShape& shape, const AttentionBatch& batch) {
  return batch.max_tokens * (shape.num_heads / shape.num_kv_heads);
}

// The large tile when a sequence has more rows than the small one and it fits into shared memory.
void choose_kernel(const AttentionShape& shape,
                   const AttentionBatch& batch,
                   DType cache,
                   AttentionPlan& plan) {
  const std::int64_t rows = rows_per_kv_head(shape, batch);
  if (can_run_mma(shape, cache)) {
    plan.kernel = AttentionPlan::Kernel::Mma;
    plan.large_tile = rows > mma_tile_rows(false);
    plan.tile_rows = mma_tile_rows(plan.large_tile);
    return;
  }
  if (can_run_mla(shape, cache)) {
    plan.kernel = AttentionPlan::Kernel::Mla;
    plan.large_tile = rows > mla_tile_rows(false);
    plan.tile_rows = mla_tile_rows(plan.large_tile);
    return;
  }
  plan.kernel = AttentionPlan::Kernel::Simt;
  plan.large_tile = rows > simt_tile_rows(shape, false) && simt_tile_fits(shape, true);
  plan.tile_rows = simt_tile_rows(shape, plan.large_tile);
  GRAFT_CHECK(simt_tile_fits(shape, plan.large_tile), "unsupported attention head dims: keys ",
              shape.key_dim, ", values ", shape.value_dim);
}

std::int64_t num_tiles(const AttentionShape& shape,
                       const AttentionBatch& batch,
                       const AttentionPlan& plan) {
  return batch.num_sequences * ceil_div(rows_per_kv_head(shape, batch), plan.tile_rows);
}

SplitRule split_rule(const AttentionBatch& batch, const AttentionPlan& plan) {
  switch (plan.kernel) {
    case AttentionPlan::Kernel::Mla:
      if (batch.max_tokens > 1) return kDefaultRule;
      return plan.large_tile ? kMlaManyHeadsRule : kMlaRule;
    default:
      return kDefaultRule;
  }
}

// Splits of one length, as many as fill the GPU.
void plan_splits(const AttentionShape& shape, const AttentionBatch& batch, AttentionPlan& plan) {
  const SplitRule rule = split_rule(batch, plan);
  const std::int64_t context = std::max<std::int64_t>(1, batch.max_context);
  const std::int64_t blocks =
      std::max<std::int64_t>(1, num_tiles(shape, batch, plan) * shape.num_kv_heads);
  const std::int64_t wanted = context <= rule.max_unsplit ? 1 : ceil_div(context, rule.min_len);
  const std::int64_t num_splits =
      std::clamp<std::int64_t>(std::min(wanted, kTargetBlocks / blocks), 1, kMaxSplits);
  const std::int64_t len =
      ceil_div(ceil_div(context, num_splits), kSplitAlignment) * kSplitAlignment;
  plan.splits = {.max_unsplit = len, .min_len = len};
  plan.num_splits = ceil_div(context, len);
}

bool plan_decode(const AttentionShape& shape,
                 const AttentionBatch& batch,
                 DType cache,
                 AttentionPlan& plan) {
  if (rows_per_kv_head(shape, batch) > 2 * decode_tile_rows() || !can_run_decode(shape, cache))
    return false;
  plan.kernel = AttentionPlan::Kernel::Decode;
  plan.tile_rows = decode_tile_rows();
  plan.splits = kDecodeRule;
  const std::int64_t wanted = ceil_div(batch.max_context, plan.splits.min_len);
  plan.num_splits = batch.max_context <= plan.splits.max_unsplit ? 1 : std::min(wanted, kMaxSplits);
  return true;
}

std::size_t max_sum_bytes(const AttentionShape& shape,
                          const AttentionBatch& batch,
                          std::int64_t num_splits) {
  return aligned_bytes(static_cast<std::size_t>(num_splits * batch.num_rows * shape.num_heads) *
                       sizeof(float2));
}

void launch_kernel(
    const AttentionPlan& plan, const AttentionJob& job, DType cache, dim3 grid, Stream stream) {
  switch (plan.kernel) {
    case AttentionPlan::Kernel::Simt:
      launch_attention_simt(job, cache, plan.large_tile, grid, stream);
      return;
    case AttentionPlan::Kernel::Mma:
      launch_attention_mma(job, cache, plan.large_tile, grid, stream);
      return;
    case AttentionPlan::Kernel::Decode:
      launch_attention_decode(job, cache, grid, stream);
      return;
    case AttentionPlan::Kernel::Mla:
      launch_attention_mla(job, cache, plan.large_tile, grid, stream);
      return;
  }
}

}  // namespace

AttentionPlan plan_attention(const AttentionShape& shape,
                             const AttentionBatch& batch,
                             DType cache) {
  GRAFT_CHECK(is_cache_type(cache), "unsupported KV cache dtype ", name(cache));
  AttentionPlan plan;
  if (!plan_decode(shape, batch, cache, plan)) {
    choose_kernel(shape, batch, cache, plan);
    plan_splits(shape, batch, plan);
  }
  if (plan.num_splits > 1) {
    const auto num_states =
        static_cast<std::size_t>(plan.num_splits * batch.num_rows * shape.num_heads);
    plan.scratch_bytes = max_sum_bytes(shape, batch, plan.num_splits) +
                         num_states * static_cast<std::size_t>(shape.value_dim) * sizeof(float);
  }
  return plan;
}

void attention(const AttentionShape& shape,
               const AttentionBatch& batch,
               const AttentionPlan& plan,
               const CacheRows& cache,
               ConstRows queries,
               Rows out,
               void* scratch,
               Stream stream) {
  AttentionJob job = {.shape = shape,
                      .batch = batch,
                      .cache = cache.data,
                      .cache_row = cache.row_elems(),
                      .vectors = cache.row_elems() % 4 == 0 && shape.key_dim % 4 == 0 &&
                                 shape.value_dim % 4 == 0 && shape.value_offset % 4 == 0,
                      .splits = plan.splits,
                      .queries = queries,
                      .out = out,
                      .partials = {}};
  if (plan.num_splits > 1) {
    auto* memory = static_cast<std::byte*>(scratch);
    job.partials = {
        .max_sum = reinterpret_cast<float2*>(memory),
        .values = reinterpret_cast<float*>(memory + max_sum_bytes(shape, batch, plan.num_splits))};
  }
  const dim3 grid(static_cast<unsigned>(num_tiles(shape, batch, plan)),
                  static_cast<unsigned>(shape.num_kv_heads),
                  static_cast<unsigned>(plan.num_splits));
  launch_kernel(plan, job, cache.dtype, grid, stream);
  if (plan.num_splits == 1) return;
  const dim3 rows(static_cast<unsigned>(batch.num_sequences * batch.max_tokens),
                  static_cast<unsigned>(shape.num_heads));
  launch("merge_splits", merge_splits_kernel, {rows, kMergeThreads}, stream, job);
}

}  // namespace graft::kernels::cuda
