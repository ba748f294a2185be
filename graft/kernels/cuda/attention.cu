#include "graft/kernels/cuda/attention.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention.cuh"

namespace graft::cuda {
namespace {

// Parts: enough blocks for four on each of 132 multiprocessors, none under 256 positions, and not
// so many that joining them shows.
constexpr std::int64_t kEnoughBlocks = 528;
constexpr std::int64_t kShortestPart = 256;
constexpr std::int64_t kMostParts = 64;
// A part begins where a chunk of keys does, in every kernel.
constexpr std::int64_t kPartStep = 64;

// A block per token and head.
__global__ void join_parts_kernel(AttentionJob job) {
  const std::int64_t sequence = blockIdx.x / job.batch.max_tokens;
  const std::int64_t token = blockIdx.x % job.batch.max_tokens;
  const std::int64_t num_tokens = job.batch.num_tokens[sequence];
  if (token >= num_tokens) return;
  const std::int64_t head = blockIdx.y;
  const std::int64_t row = job.batch.first_rows[sequence] + token;
  const std::int64_t position = job.batch.context_lens[sequence] - num_tokens + token;
  const std::int64_t first = first_seen(job.shape.window, position) / job.part_len;
  const std::int64_t last = position / job.part_len;
  const auto place = [&](std::int64_t part) {
    return (part * job.batch.num_rows + row) * job.shape.num_heads + head;
  };
  float max = kNothing;
  for (std::int64_t part = first; part <= last; ++part)
    max = fmaxf(max, job.states.max_sum[place(part)].x);
  float sum = 0.0F;
  for (std::int64_t part = first; part <= last; ++part) {
    const float2 state = job.states.max_sum[place(part)];
    sum += state.y * exp2f(state.x - max);
  }
  float* to = job.out.data + row * job.out.stride + head * job.shape.value_dim;
  for (std::int64_t col = threadIdx.x; col < job.shape.value_dim; col += blockDim.x) {
    float value = 0.0F;
    for (std::int64_t part = first; part <= last; ++part) {
      const std::int64_t at = place(part);
      value +=
          job.states.values[at * job.shape.value_dim + col] * exp2f(job.states.max_sum[at].x - max);
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
    plan.tile_rows = latent_tile_rows();
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
    case AttentionPlan::Kernel::Latents:
      launch_latent(job, cache, grid, stream);
      return;
  }
}

}  // namespace

AttentionPlan plan_attention(const AttentionShape& shape,
                             const AttentionBatch& batch,
                             DType cache) {
  GRAFT_CHECK(is_cache_type(cache), "no attention to a cache of ", name(cache));
  AttentionPlan plan;
  choose_kernel(shape, batch, cache, plan);
  const std::int64_t context = std::max<std::int64_t>(1, batch.max_context);
  const std::int64_t blocks =
      std::max<std::int64_t>(1, num_tiles(shape, batch, plan) * shape.num_kv_heads);
  const std::int64_t parts = std::clamp<std::int64_t>(
      std::min(ceil_div(context, kShortestPart), kEnoughBlocks / blocks), 1, kMostParts);
  plan.part_len = ceil_div(ceil_div(context, parts), kPartStep) * kPartStep;
  plan.num_parts = ceil_div(context, plan.part_len);
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
  launch("join_parts", join_parts_kernel, {rows, 128}, stream, job);
}

}  // namespace graft::cuda
