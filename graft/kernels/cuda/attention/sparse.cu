#include "graft/kernels/cuda/attention/sparse.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/cache/cache_types.cuh"
#include "graft/kernels/cuda/row_position.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kNormThreads = 128;
// index_scores: a tile of 64 heads x 64 keys, 4 x 4 per thread, 32 dimensions at a time.
constexpr int kScoreThreads = 256;
constexpr int kTileHeads = 64;
constexpr int kTileKeys = 64;
constexpr int kTileDims = 32;
constexpr int kPerThread = 4;
constexpr int kThreadsAcross = kTileKeys / kPerThread;
constexpr int kTileStride = kTileKeys + 4;  // keeps float4 alignment, spreads the banks
constexpr int kSelectThreads = 512;
constexpr int kSelectWarps = kSelectThreads / kWarpSize;
constexpr int kNumBins = 256;
constexpr int kGatherThreads = 256;
constexpr int kGatherWarps = kGatherThreads / kWarpSize;

// Block: a row.
__global__ void layer_norm_kernel(Rows x, LayerNorm norm, std::int64_t cols) {
  begin_kernel();
  float* row = x.data + blockIdx.x * x.stride;
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x)
    sum += row[i];
  const float mean = block_sum(sum) / static_cast<float>(cols);
  float squares = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x)
    squares = fmaf(row[i] - mean, row[i] - mean, squares);
  const float variance = block_sum(squares) / static_cast<float>(cols);
  const float factor = 1.0F / sqrtf(variance + norm.eps);
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x)
    row[i] = (row[i] - mean) * factor * norm.weight[i] + norm.bias[i];
}

// Keys that a row may select; 0: padding.
__device__ std::int64_t num_keys(const IndexShape& shape, const RowPosition& at) {
  return (at.position + 1) / shape.rate;
}

struct ScoreJob {
  IndexShape shape;
  AttentionBatch batch;
  const void* keys;
  ConstRows queries;
  ConstRows weights;
  float* scores;
  std::int64_t score_stride;
  std::int64_t first_row;
};

struct alignas(16) ScoreMemory {
  float queries[kTileDims][kTileStride];
  float keys[kTileDims][kTileStride];
  float sums[kThreadsAcross][kTileKeys];
  std::int64_t slots[kTileKeys];
};

// Dimensions [first, first + kTileDims) of 64 heads and 64 keys; zeros past the end.
template <class Cache>
__device__ void load_tiles(
    const ScoreJob& job, std::int64_t row, int first_head, int first, ScoreMemory& memory) {
  const auto dims = static_cast<int>(job.shape.head_dim);
  const float* queries = job.queries.data + row * job.queries.stride;
  for (int i = static_cast<int>(threadIdx.x); i < kTileDims * kTileHeads; i += kScoreThreads) {
    const int at = i / kTileDims;
    const int dim = first + i % kTileDims;
    const int head = first_head + at;
    const bool has_head = head < job.shape.num_heads && dim < dims;
    memory.queries[i % kTileDims][at] =
        has_head ? queries[static_cast<std::int64_t>(head) * dims + dim] : 0.0F;
    const std::int64_t slot = memory.slots[at];
    memory.keys[i % kTileDims][at] =
        slot >= 0 && dim < dims ? Cache::load(cache_row_at<Cache>(job.keys, slot, dims), dim)
                                : 0.0F;
  }
}

// Grid: (rows, tiles of keys). Thread (y, x) has the heads 4 y … and the keys 4 x … of a tile.
template <class Cache>
__global__ void __launch_bounds__(kScoreThreads) index_scores_kernel(ScoreJob job) {
  begin_kernel();
  __shared__ ScoreMemory memory;
  const std::int64_t row = job.first_row + blockIdx.x;
  const std::int64_t first_key = static_cast<std::int64_t>(blockIdx.y) * kTileKeys;
  const RowPosition at = find_row(job.batch, row);
  const std::int64_t count = num_keys(job.shape, at);
  if (count <= job.shape.top_k || first_key >= count) return;
  if (threadIdx.x < kTileKeys) {
    const std::int64_t key = first_key + threadIdx.x;
    memory.slots[threadIdx.x] =
        key < count ? slot_of(job.batch, at.sequence, (key + 1) * job.shape.rate - 1) : -1;
  }
  const int y = static_cast<int>(threadIdx.x) / kThreadsAcross * kPerThread;
  const int x = static_cast<int>(threadIdx.x) % kThreadsAcross * kPerThread;
  const float* weights = job.weights.data + row * job.weights.stride;
  float scores[kPerThread] = {};
  for (int head = 0; head < job.shape.num_heads; head += kTileHeads) {
    float products[kPerThread][kPerThread] = {};
    for (int dim = 0; dim < job.shape.head_dim; dim += kTileDims) {
      __syncthreads();  // the slots are known, the tiles before are consumed
      load_tiles<Cache>(job, row, head, dim, memory);
      __syncthreads();
      GRAFT_UNROLL_4
      for (int d = 0; d < kTileDims; ++d) {
        const float4 q = *reinterpret_cast<const float4*>(&memory.queries[d][y]);
        const float4 k = *reinterpret_cast<const float4*>(&memory.keys[d][x]);
        const float qs[kPerThread] = {q.x, q.y, q.z, q.w};
        const float ks[kPerThread] = {k.x, k.y, k.z, k.w};
        GRAFT_UNROLL
        for (int i = 0; i < kPerThread; ++i) {
          GRAFT_UNROLL
          for (int j = 0; j < kPerThread; ++j)
            products[i][j] = fmaf(qs[i], ks[j], products[i][j]);
        }
      }
    }
    GRAFT_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      const int own = head + y + i;
      const float weight = own < job.shape.num_heads ? weights[own] : 0.0F;
      GRAFT_UNROLL
      for (int j = 0; j < kPerThread; ++j)
        scores[j] = fmaf(weight, fmaxf(products[i][j], 0.0F), scores[j]);
    }
  }
  GRAFT_UNROLL
  for (int j = 0; j < kPerThread; ++j)
    memory.sums[y / kPerThread][x + j] = scores[j];
  __syncthreads();
  const std::int64_t key = first_key + threadIdx.x;
  if (threadIdx.x >= kTileKeys || key >= count) return;
  float sum = 0.0F;
  for (int i = 0; i < kThreadsAcross; ++i)
    sum += memory.sums[i][threadIdx.x];
  job.scores[blockIdx.x * job.score_stride + key] = sum * job.shape.scale;
}

// Integers in the order of the scores; zeros of both signs are equal.
__device__ std::uint32_t order_key(float score) {
  const std::uint32_t bits = __float_as_uint(score + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// The number of threads before this one with the flag; total: of the block. All threads must call
// it.
__device__ int count_before(bool flag, int* warp_counts, int& total) {
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const unsigned votes = __ballot_sync(kAllLanes, flag);
  __syncthreads();  // an earlier call has read warp_counts
  if (lane == 0) warp_counts[warp] = __popc(votes);
  __syncthreads();
  int before = __popc(votes & ((1U << lane) - 1U));
  total = 0;
  for (int i = 0; i < kSelectWarps; ++i) {
    if (i < warp) before += warp_counts[i];
    total += warp_counts[i];
  }
  return before;
}

struct Threshold {
  std::uint32_t key;  // the lowest selected one
  int num_equal;      // how many of this key are selected
};

// Radix selection, 8 bits of the keys at a time. All threads must call it.
__device__ Threshold find_threshold(const float* scores, std::int64_t count, std::int64_t top_k) {
  __shared__ int bins[kNumBins];
  __shared__ Threshold found;
  if (threadIdx.x == 0) found = {0, static_cast<int>(top_k)};
  std::uint32_t mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = static_cast<int>(threadIdx.x); i < kNumBins; i += kSelectThreads)
      bins[i] = 0;
    __syncthreads();
    const std::uint32_t prefix = found.key;
    for (std::int64_t i = threadIdx.x; i < count; i += kSelectThreads) {
      const std::uint32_t key = order_key(scores[i]);
      if ((key & mask) == prefix) atomicAdd(&bins[key >> shift & 0xffU], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int bin = kNumBins - 1;
      while (bin > 0 && bins[bin] < found.num_equal)
        found.num_equal -= bins[bin--];
      found.key |= static_cast<std::uint32_t>(bin) << shift;
    }
    mask |= 0xffU << shift;
    __syncthreads();
  }
  return found;
}

// Block: a row.
__global__ void __launch_bounds__(kSelectThreads) select_positions_kernel(IndexShape shape,
                                                                          AttentionBatch batch,
                                                                          const float* scores,
                                                                          std::int64_t score_stride,
                                                                          std::int32_t* selected,
                                                                          std::int64_t first_row) {
  begin_kernel();
  __shared__ int warp_counts[kSelectWarps];
  const std::int64_t row = first_row + blockIdx.x;
  const RowPosition at = find_row(batch, row);
  if (at.sequence < 0) return;
  std::int32_t* out = selected + row * shape.top_k;
  const std::int64_t count = num_keys(shape, at);
  if (count <= shape.top_k) {
    for (std::int64_t i = threadIdx.x; i < shape.top_k; i += kSelectThreads)
      out[i] = i < count ? static_cast<std::int32_t>(i) : -1;
    return;
  }
  const float* own = scores + blockIdx.x * score_stride;
  const Threshold threshold = find_threshold(own, count, shape.top_k);
  int num_selected = 0;
  int num_equal = 0;
  for (std::int64_t begin = 0; begin < count; begin += kSelectThreads) {
    const std::int64_t position = begin + threadIdx.x;
    const std::uint32_t key = position < count ? order_key(own[position]) : 0;
    const bool is_equal = position < count && key == threshold.key;
    int total = 0;
    const int equal_before = num_equal + count_before(is_equal, warp_counts, total);
    num_equal += total;
    const bool is_selected = (position < count && key > threshold.key) ||
                             (is_equal && equal_before < threshold.num_equal);
    const int place = num_selected + count_before(is_selected, warp_counts, total);
    num_selected += total;
    if (is_selected) out[place] = static_cast<std::int32_t>(position);
  }
}

struct GatherJob {
  std::int64_t top_k;
  AttentionBatch batch;
  const std::byte* cache;
  std::int64_t row_bytes;
  const std::int32_t* selected;
  SelectedRows to;
  std::int64_t first_row;
  std::int64_t count;
};

// Grid: (rows, groups of selected positions). Warp: one position.
__global__ void __launch_bounds__(kGatherThreads) gather_selected_kernel(GatherJob job) {
  begin_kernel();
  const std::int64_t row = job.first_row + blockIdx.x;
  const RowPosition at = find_row(job.batch, row);
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    const std::int64_t context = at.position + 1;
    job.to.arrays[blockIdx.x] = static_cast<std::int32_t>(blockIdx.x);
    job.to.arrays[job.count + blockIdx.x] = at.sequence < 0 ? 0 : 1;
    job.to.arrays[2 * job.count + blockIdx.x] =
        static_cast<std::int32_t>(context < job.top_k ? context : job.top_k);
  }
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.y) * kGatherWarps + threadIdx.x / kWarpSize;
  if (at.sequence < 0 || i >= job.top_k) return;
  const std::int64_t position = job.selected[row * job.top_k + i];
  if (position < 0) return;
  const std::byte* from = job.cache + slot_of(job.batch, at.sequence, position) * job.row_bytes;
  std::byte* to =
      static_cast<std::byte*>(job.to.data) + (blockIdx.x * job.top_k + i) * job.row_bytes;
  const auto lane = static_cast<std::int64_t>(threadIdx.x) % kWarpSize;
  if (job.row_bytes % sizeof(uint4) == 0) {
    const auto num_vectors = job.row_bytes / static_cast<std::int64_t>(sizeof(uint4));
    for (std::int64_t v = lane; v < num_vectors; v += kWarpSize)
      reinterpret_cast<uint4*>(to)[v] = reinterpret_cast<const uint4*>(from)[v];
    return;
  }
  for (std::int64_t v = lane; v < job.row_bytes / 2; v += kWarpSize)
    reinterpret_cast<std::uint16_t*>(to)[v] = reinterpret_cast<const std::uint16_t*>(from)[v];
}

using LaunchScores = void (*)(const ScoreJob& job, dim3 grid, Stream stream);

template <class Cache>
void launch_scores(const ScoreJob& job, dim3 grid, Stream stream) {
  launch("index_scores", index_scores_kernel<Cache>, {grid, kScoreThreads}, stream, job);
}

template <class Cache>
struct ScoreLauncher {
  static constexpr LaunchScores kLaunch = launch_scores<Cache>;
};

constexpr auto kScoreLaunches = cache_table<LaunchScores, ScoreLauncher>();

}  // namespace

void layer_norm(
    Rows x, const LayerNorm& norm, std::int64_t rows, std::int64_t cols, Stream stream) {
  launch("layer_norm", layer_norm_kernel, {static_cast<unsigned>(rows), kNormThreads}, stream, x,
         norm, cols);
}

void index_scores(const IndexShape& shape,
                  const AttentionBatch& batch,
                  const CacheRows& keys,
                  ConstRows queries,
                  ConstRows weights,
                  float* scores,
                  RowRange rows,
                  Stream stream) {
  GRAFT_CHECK(is_cache_type(keys.dtype) && keys.row_elems() == shape.head_dim, "index keys of ",
              keys.row_elems(), " x ", name(keys.dtype));
  const ScoreJob job = {.shape = shape,
                        .batch = batch,
                        .keys = keys.data,
                        .queries = queries,
                        .weights = weights,
                        .scores = scores,
                        .score_stride = max_keys(shape, batch),
                        .first_row = rows.first};
  const dim3 grid(static_cast<unsigned>(rows.count),
                  static_cast<unsigned>(ceil_div(max_keys(shape, batch), kTileKeys)));
  kScoreLaunches[static_cast<std::size_t>(keys.dtype)](job, grid, stream);
}

void select_positions(const IndexShape& shape,
                      const AttentionBatch& batch,
                      const float* scores,
                      std::int32_t* selected,
                      RowRange rows,
                      Stream stream) {
  GRAFT_CHECK(scores != nullptr || max_keys(shape, batch) <= shape.top_k, "no scores of ",
              max_keys(shape, batch), " keys");
  launch("select_positions", select_positions_kernel,
         {static_cast<unsigned>(rows.count), kSelectThreads}, stream, shape, batch, scores,
         max_keys(shape, batch), selected, rows.first);
}

std::size_t selected_array_bytes(std::int64_t count) {
  return static_cast<std::size_t>(3 * count) * sizeof(std::int32_t);
}

void gather_selected(std::int64_t top_k,
                     const AttentionBatch& batch,
                     const CacheRows& cache,
                     const std::int32_t* selected,
                     const SelectedRows& to,
                     RowRange rows,
                     Stream stream) {
  const GatherJob job = {
      .top_k = top_k,
      .batch = batch,
      .cache = static_cast<const std::byte*>(cache.data),
      .row_bytes = static_cast<std::int64_t>(bytes_of(cache.dtype, cache.row_elems())),
      .selected = selected,
      .to = to,
      .first_row = rows.first,
      .count = rows.count};
  const dim3 grid(static_cast<unsigned>(rows.count),
                  static_cast<unsigned>(ceil_div(top_k, kGatherWarps)));
  launch("gather_selected", gather_selected_kernel, {grid, kGatherThreads}, stream, job);
}

AttentionBatch selected_batch(std::int64_t top_k, const SelectedRows& rows, std::int64_t count) {
  return {.first_rows = rows.arrays,
          .num_tokens = rows.arrays + count,
          .context_lens = rows.arrays + 2 * count,
          .block_tables = rows.arrays,  // block r holds the positions of row r
          .table_stride = 1,
          .block_tokens = top_k,
          .num_sequences = count,
          .base_row = 0,
          .num_rows = count,
          .max_tokens = 1,
          .max_context = top_k};
}

}  // namespace graft::kernels::cuda
