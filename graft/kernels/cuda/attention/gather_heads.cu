// Keys and values of KV heads of a quantized cache as F16 rows (attention.h).

#include "graft/base/check.h"
#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/row_position.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kRows = 8;  // per block, one warp each
constexpr int kVector = 8;

struct GatherJob {
  AttentionBatch batch;
  const void* cache;
  std::int64_t cache_cols;
  std::int64_t first_key;
  std::int64_t first_value;
  std::int64_t num_keys;  // columns
  std::int64_t num_values;
  std::int64_t positions;
  uint4* to;
};

// Grid: positions / kRows. A lane converts eight columns at a time.
template <class Cache>
__global__ void __launch_bounds__(kRows* kWarpSize) gather_heads_kernel(GatherJob job) {
  begin_kernel();
  if constexpr (kIsQuantizedCache<Cache>) {
    const std::int64_t row = global_thread() / kWarpSize;
    if (row >= job.positions) return;
    const CacheRowAt from =
        cache_row_at<Cache>(job.cache, cache_slot_of_packed(job.batch, row), job.cache_cols);
    const std::int64_t vectors = (job.num_keys + job.num_values) / kVector;
    for (std::int64_t v = threadIdx.x % kWarpSize; v < vectors; v += kWarpSize) {
      const std::int64_t col = v * kVector;
      const std::int64_t at =
          col < job.num_keys ? job.first_key + col : job.first_value + col - job.num_keys;
      job.to[row * vectors + v] = load_halves<Cache>(from, at);
    }
  }
}

using Launch = void (*)(const GatherJob& job, Stream stream);

template <class Cache>
void launch_gather(const GatherJob& job, Stream stream) {
  launch("gather_heads", gather_heads_kernel<Cache>,
         {blocks_for(job.positions, kRows), kRows * kWarpSize}, stream, job);
}

template <class Cache>
struct Launcher {
  static constexpr Launch kLaunch = kIsQuantizedCache<Cache> ? launch_gather<Cache> : nullptr;
};

constexpr auto kLaunches = cache_table<Launch, Launcher>();

}  // namespace

void gather_heads(const AttentionShape& shape,
                  const AttentionBatch& batch,
                  const CacheRows& cache,
                  const GatheredHeads& heads,
                  Stream stream) {
  const Launch launch_for_type = kLaunches[static_cast<std::size_t>(cache.dtype)];
  GRAFT_CHECK(launch_for_type != nullptr, "KV cache of ", name(cache.dtype), " is not gathered");
  launch_for_type({.batch = batch,
                   .cache = cache.data,
                   .cache_cols = cache.row_elems(),
                   .first_key = heads.first_kv_head * shape.key_dim,
                   .first_value = shape.value_offset + heads.first_kv_head * shape.value_dim,
                   .num_keys = heads.num_kv_heads * shape.key_dim,
                   .num_values = heads.num_kv_heads * shape.value_dim,
                   .positions = heads.positions,
                   .to = static_cast<uint4*>(heads.to)},
                  stream);
}

}  // namespace graft::kernels::cuda
