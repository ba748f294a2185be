#include "graft/kernels/cuda/attention/attention.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/attention.cuh"

namespace graft::kernels::cuda {
namespace {

// Parts: enough blocks for four on each of 132 multiprocessors, and not so many that joining them
// shows.
constexpr std::int64_t kEnoughBlocks = 528;
constexpr std::int64_t kMaxParts = 64;

// Joining takes about three microseconds: contexts of up to `unsplit` positions are one part, and
// no part is shorter than `shortest`.
struct PartRule {
  std::int64_t unsplit;
  std::int64_t shortest;
};
constexpr PartRule kAnyRows = {.unsplit = 256, .shortest = 256};
constexpr PartRule kFewRows = {.unsplit = 512, .shortest = 256};
// Single tokens; latents are long, and the more so the more heads they meet.
constexpr PartRule kLatents = {.unsplit = 256, .shortest = 128};
constexpr PartRule kLatentsOfManyHeads = {.unsplit = 64, .shortest = 64};
// Few rows: past so many positions a block the kernel that has loads and products overlap is
// quicker.
constexpr std::int64_t kLongestFewPart = 1024;
// A part begins where a chunk of keys does, in every kernel.
constexpr std::int64_t kPartStep = 64;

constexpr int kJoinThreads = 128;
constexpr int kJoinAhead = 8;  // values that a thread has under way

// A block per token and head.
__global__ void __launch_bounds__(kJoinThreads) join_parts_kernel(AttentionJob job) {
  __shared__ float factors[kMaxParts];
  const std::int64_t sequence = quotient(blockIdx.x, job.batch.max_tokens);
  const std::int64_t token = blockIdx.x - sequence * job.batch.max_tokens;
  const std::int64_t num_tokens = job.batch.num_tokens[sequence];
  if (token >= num_tokens) return;
  const std::int64_t row = job.batch.first_rows[sequence] + token;
  const std::int64_t position = job.batch.context_lens[sequence] - num_tokens + token;
  const std::int64_t first = quotient(first_seen(job.shape.window, position), job.part_len);
  const auto count = static_cast<int>(quotient(position, job.part_len) - first) + 1;
  const std::int64_t place = (first * job.batch.num_rows + row) * job.shape.num_heads + blockIdx.y;
  const std::int64_t step = job.batch.num_rows * job.shape.num_heads;  // to the next part
  // Every warp looks at all parts, a lane at two of them.
  static_assert(kMaxParts == 2 * kWarpSize);
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  float2 states[2];
  GRAFT_UNROLL
  for (int i = 0; i < 2; ++i) {
    const int part = lane + i * kWarpSize;
    states[i] = part < count ? job.states.max_sum[place + part * step] : make_float2(kNothing, 0);
  }
  const float max = warp_max(fmaxf(states[0].x, states[1].x));
  const float mine[2] = {exp2f(states[0].x - max), exp2f(states[1].x - max)};
  const float sum = warp_sum(states[0].y * mine[0] + states[1].y * mine[1]);
  if (threadIdx.x < kWarpSize) {
    factors[lane] = mine[0];
    factors[lane + kWarpSize] = mine[1];
  }
  __syncthreads();
  const auto value_dim = static_cast<int>(job.shape.value_dim);
  float* to = job.out.data + row * job.out.stride + blockIdx.y * job.shape.value_dim;
  for (int col = static_cast<int>(threadIdx.x); col < value_dim; col += kJoinThreads) {
    const float* from = job.states.values + place * value_dim + col;
    float value = 0.0F;
    for (int part = 0; part < count; part += kJoinAhead) {
      float values[kJoinAhead];
      GRAFT_UNROLL
      for (int i = 0; i < kJoinAhead; ++i)
        values[i] = part + i < count ? from[(part + i) * step * value_dim] : 0.0F;
      GRAFT_UNROLL
      for (int i = 0; i < kJoinAhead; ++i)
        value += part + i < count ? values[i] * factors[part + i] : 0.0F;
    }
    to[col] = value / sum;
  }
}

std::int64_t rows_of_sequence(const AttentionShape& shape, const AttentionBatch& batch) {
  return batch.max_tokens * (shape.num_heads / shape.num_kv_heads);
}

// Tiles of many rows where a sequence has more than a small tile and the GPU has room for them.
void choose_kernel(const AttentionShape& shape,
                   const AttentionBatch& batch,
                   DType cache,
                   AttentionPlan& plan) {
  const std::int64_t rows = rows_of_sequence(shape, batch);
  if (can_run_on_tensor_cores(shape, cache)) {
    plan.kernel = AttentionPlan::Kernel::TensorCores;
    plan.many_rows = rows > tensor_tile_rows(false);
    plan.tile_rows = tensor_tile_rows(plan.many_rows);
    return;
  }
  if (can_run_latent(shape, cache)) {
    plan.kernel = AttentionPlan::Kernel::Latents;
    plan.many_rows = rows > latent_tile_rows(false);
    plan.tile_rows = latent_tile_rows(plan.many_rows);
    return;
  }
  plan.many_rows = rows > core_tile_rows(shape, false) && core_tile_fits(shape, true);
  plan.tile_rows = core_tile_rows(shape, plan.many_rows);
  GRAFT_CHECK(core_tile_fits(shape, plan.many_rows), "no attention of ", shape.key_dim, " by ",
              shape.value_dim);
}

std::int64_t num_tiles(const AttentionShape& shape,
                       const AttentionBatch& batch,
                       const AttentionPlan& plan) {
  return batch.num_sequences * ceil_div(rows_of_sequence(shape, batch), plan.tile_rows);
}

PartRule part_rule(const AttentionBatch& batch, const AttentionPlan& plan) {
  switch (plan.kernel) {
    case AttentionPlan::Kernel::FewRows:
      return kFewRows;
    case AttentionPlan::Kernel::Latents:
      if (batch.max_tokens > 1) return kAnyRows;
      return plan.many_rows ? kLatentsOfManyHeads : kLatents;
    default:
      return kAnyRows;
  }
}

void split(const AttentionShape& shape, const AttentionBatch& batch, AttentionPlan& plan) {
  const PartRule rule = part_rule(batch, plan);
  const std::int64_t context = std::max<std::int64_t>(1, batch.max_context);
  const std::int64_t blocks =
      std::max<std::int64_t>(1, num_tiles(shape, batch, plan) * shape.num_kv_heads);
  const std::int64_t wanted = context <= rule.unsplit ? 1 : ceil_div(context, rule.shortest);
  const std::int64_t parts =
      std::clamp<std::int64_t>(std::min(wanted, kEnoughBlocks / blocks), 1, kMaxParts);
  plan.part_len = ceil_div(ceil_div(context, parts), kPartStep) * kPartStep;
  plan.num_parts = ceil_div(context, plan.part_len);
}

bool plan_few(const AttentionShape& shape,
              const AttentionBatch& batch,
              DType cache,
              AttentionPlan& plan) {
  if (rows_of_sequence(shape, batch) > 2 * few_tile_rows() || !can_run_few(shape, cache))
    return false;
  plan.kernel = AttentionPlan::Kernel::FewRows;
  plan.tile_rows = few_tile_rows();
  split(shape, batch, plan);
  return plan.part_len <= kLongestFewPart;
}

std::size_t max_sum_bytes(const AttentionShape& shape,
                          const AttentionBatch& batch,
                          std::int64_t num_parts) {
  return aligned_bytes(static_cast<std::size_t>(num_parts * batch.num_rows * shape.num_heads) *
                       sizeof(float2));
}

void start(
    const AttentionPlan& plan, const AttentionJob& job, DType cache, dim3 grid, Stream stream) {
  switch (plan.kernel) {
    case AttentionPlan::Kernel::Cores:
      launch_on_cores(job, cache, plan.many_rows, grid, stream);
      return;
    case AttentionPlan::Kernel::TensorCores:
      launch_on_tensor_cores(job, cache, plan.many_rows, grid, stream);
      return;
    case AttentionPlan::Kernel::FewRows:
      launch_few(job, cache, grid, stream);
      return;
    case AttentionPlan::Kernel::Latents:
      launch_latent(job, cache, plan.many_rows, grid, stream);
      return;
  }
}

}  // namespace

AttentionPlan plan_attention(const AttentionShape& shape,
                             const AttentionBatch& batch,
                             DType cache) {
  GRAFT_CHECK(is_cache_type(cache), "no attention to a cache of ", name(cache));
  AttentionPlan plan;
  if (!plan_few(shape, batch, cache, plan)) {
    choose_kernel(shape, batch, cache, plan);
    split(shape, batch, plan);
  }
  if (plan.num_parts > 1) {
    const auto states = static_cast<std::size_t>(plan.num_parts * batch.num_rows * shape.num_heads);
    plan.scratch_bytes = max_sum_bytes(shape, batch, plan.num_parts) +
                         states * static_cast<std::size_t>(shape.value_dim) * sizeof(float);
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
                      .part_len = plan.part_len,
                      .queries = queries,
                      .out = out,
                      .states = {}};
  if (plan.num_parts > 1) {
    auto* memory = static_cast<std::byte*>(scratch);
    job.states = {
        .max_sum = reinterpret_cast<float2*>(memory),
        .values = reinterpret_cast<float*>(memory + max_sum_bytes(shape, batch, plan.num_parts))};
  }
  const dim3 grid(static_cast<unsigned>(num_tiles(shape, batch, plan)),
                  static_cast<unsigned>(shape.num_kv_heads), static_cast<unsigned>(plan.num_parts));
  start(plan, job, cache.dtype, grid, stream);
  if (plan.num_parts == 1) return;
  const dim3 rows(static_cast<unsigned>(batch.num_sequences * batch.max_tokens),
                  static_cast<unsigned>(shape.num_heads));
  launch("join_parts", join_parts_kernel, {rows, kJoinThreads}, stream, job);
}

}  // namespace graft::kernels::cuda
