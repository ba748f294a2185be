#include "graft/kernels/cuda/attention/attention.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/attention.cuh"

namespace graft::kernels::cuda {
namespace {

// Four blocks on each of 132 SMs (H100, H200) fill the GPU.
constexpr std::int64_t kTargetBlocks = 528;
// Of Kernel::Prefill, which fits twice on an SM.
constexpr std::int64_t kPrefillTargetBlocks = 264;
// With fewer blocks the smaller tiles of Kernel::Mma use more of the GPU.
constexpr std::int64_t kMinPrefillBlocks = 132;

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
  const std::int64_t row = query_row(job, sequence, token);
  const std::int64_t position = job.batch.context_lens[sequence] - num_tokens + token;
  const std::int64_t len = split_len(job.splits, job.batch.context_lens[sequence]);
  const std::int64_t first = div_u32(window_begin(job.shape, position), len);
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
  const float key_sum = warp_sum(states[0].y * lane_factors[0] + states[1].y * lane_factors[1]);
  const float sum = sum_with_sink(job.shape, blockIdx.y, make_float2(max, key_sum));
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

// Whether tiles of Kernel::Prefill, with KV splits, fill the GPU.
bool fills_prefill_tiles(const AttentionShape& shape, const AttentionBatch& batch) {
  const std::int64_t rows = rows_per_kv_head(shape, batch);
  const std::int64_t tiles =
      batch.num_sequences * shape.num_kv_heads * ceil_div(rows, prefill_tile_rows());
  const std::int64_t splits = ceil_div(batch.max_context, kDefaultRule.min_len);
  return rows > prefill_tile_rows() / 2 && tiles * splits >= kMinPrefillBlocks;
}

// The large tile when a sequence has more rows than the small one and it fits into shared memory.
void choose_kernel(const AttentionShape& shape,
                   const AttentionBatch& batch,
                   DType cache,
                   AttentionPlan& plan) {
  const std::int64_t rows = rows_per_kv_head(shape, batch);
  if (can_run_mma(shape, cache) && can_run_prefill(shape, cache) &&
      fills_prefill_tiles(shape, batch)) {
    plan.kernel = AttentionPlan::Kernel::Prefill;
    plan.uses_wgmma = can_run_prefill_wgmma();
    plan.tile_rows = prefill_tile_rows();
    return;
  }
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
  const std::int64_t target =
      plan.kernel == AttentionPlan::Kernel::Prefill ? kPrefillTargetBlocks : kTargetBlocks;
  const std::int64_t num_splits =
      std::clamp<std::int64_t>(std::min(wanted, target / blocks), 1, kMaxSplits);
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

// Memory of the partial states, when the context is split.
void plan_scratch(const AttentionShape& shape, const AttentionBatch& batch, AttentionPlan& plan) {
  if (plan.num_splits == 1) return;
  const auto num_states =
      static_cast<std::size_t>(plan.num_splits * batch.num_rows * shape.num_heads);
  plan.scratch_bytes = max_sum_bytes(shape, batch, plan.num_splits) +
                       num_states * static_cast<std::size_t>(shape.value_dim) * sizeof(float);
}

SplitStates states_at(void* scratch,
                      const AttentionShape& shape,
                      const AttentionBatch& batch,
                      const AttentionPlan& plan) {
  if (plan.num_splits == 1) return {};
  auto* memory = static_cast<std::byte*>(scratch);
  return {
      .max_sum = reinterpret_cast<float2*>(memory),
      .values = reinterpret_cast<float*>(memory + max_sum_bytes(shape, batch, plan.num_splits))};
}

dim3 grid_of(const AttentionJob& job, const AttentionPlan& plan) {
  return dim3(static_cast<unsigned>(num_tiles(job.shape, job.batch, plan)),
              static_cast<unsigned>(job.shape.num_kv_heads),
              static_cast<unsigned>(plan.num_splits));
}

// Keys and values in the KV cache, of 16 bits.
KeySource cached_keys(const AttentionJob& job) {
  const auto* cache = static_cast<const std::uint16_t*>(job.cache);
  return {.keys = cache,
          .values = cache + job.shape.value_offset,
          .stride = job.cache_row,
          .key_step = job.shape.key_dim,
          .value_step = job.shape.value_dim,
          .own_dim = static_cast<int>(job.shape.key_dim),
          .shared = nullptr,
          .shared_stride = 0};
}

void launch_prefill(const AttentionPlan& plan,
                    const AttentionJob& job,
                    const KeySource& source,
                    DType cache,
                    Stream stream) {
  const auto run = plan.uses_wgmma ? launch_attention_prefill_wgmma : launch_attention_prefill;
  run(job, source, cache, grid_of(job, plan), stream);
}

void launch_kernel(const AttentionPlan& plan, const AttentionJob& job, DType cache, Stream stream) {
  const dim3 grid = grid_of(job, plan);
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
    case AttentionPlan::Kernel::Prefill:
      launch_prefill(plan, job, cached_keys(job), cache, stream);
      return;
    case AttentionPlan::Kernel::Mla:
      launch_attention_mla(job, cache, plan.large_tile, grid, stream);
      return;
  }
}

void merge_splits(const AttentionPlan& plan, const AttentionJob& job, Stream stream) {
  if (plan.num_splits == 1) return;
  const dim3 rows(static_cast<unsigned>(job.batch.num_sequences * job.batch.max_tokens),
                  static_cast<unsigned>(job.shape.num_heads));
  launch("merge_splits", merge_splits_kernel, {rows, kMergeThreads}, stream, job);
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
  plan_scratch(shape, batch, plan);
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
  const AttentionJob job = {.shape = shape,
                            .batch = batch,
                            .cache = cache.data,
                            .cache_row = cache.row_elems(),
                            .vectors = cache.row_elems() % 4 == 0 && shape.key_dim % 4 == 0 &&
                                       shape.value_dim % 4 == 0 && shape.value_offset % 4 == 0,
                            .splits = plan.splits,
                            .queries = queries,
                            .out = out,
                            .partials = states_at(scratch, shape, batch, plan)};
  launch_kernel(plan, job, cache.dtype, stream);
  merge_splits(plan, job, stream);
}

bool is_gathered(const AttentionShape& shape, const AttentionBatch& batch, DType cache) {
  if (batch.max_tokens <= 1 || shape.value_offset == 0 || !can_load_halves(shape, cache))
    return false;
  AttentionPlan plan;
  return !plan_decode(shape, batch, cache, plan) && can_run_mma(shape, DType::F16);
}

bool can_attend_expanded(const AttentionShape& shape) {
  return can_run_prefill(shape, DType::F16);
}

AttentionPlan plan_attention_expanded(const AttentionShape& shape, const AttentionBatch& batch) {
  AttentionPlan plan;
  plan.kernel = AttentionPlan::Kernel::Prefill;
  plan.uses_wgmma = can_run_prefill_wgmma();
  plan.tile_rows = prefill_tile_rows();
  plan_splits(shape, batch, plan);
  plan_scratch(shape, batch, plan);
  return plan;
}

void attention_expanded(const AttentionShape& shape,
                        const AttentionBatch& batch,
                        const AttentionPlan& plan,
                        const ExpandedKeys& keys,
                        ConstRows queries,
                        Rows out,
                        void* scratch,
                        Stream stream) {
  GRAFT_CHECK(batch.block_tables == nullptr && shape.num_heads == shape.num_kv_heads,
              "expanded keys have packed slots and a KV head per head");
  const AttentionJob job = {.shape = shape,
                            .batch = batch,
                            .cache = nullptr,
                            .cache_row = 0,
                            .vectors = false,
                            .splits = plan.splits,
                            .queries = queries,
                            .out = out,
                            .partials = states_at(scratch, shape, batch, plan)};
  const std::int64_t step = keys.own_dim + shape.value_dim;
  const KeySource source = {.keys = keys.rows,
                            .values = keys.rows + keys.own_dim,
                            .stride = shape.num_heads * step,
                            .key_step = step,
                            .value_step = step,
                            .own_dim = static_cast<int>(keys.own_dim),
                            .shared = keys.shared,
                            .shared_stride = keys.shared_stride};
  launch_prefill(plan, job, source, DType::F16, stream);
  merge_splits(plan, job, stream);
}

}  // namespace graft::kernels::cuda
