#include "graft/kernels/cuda/compressed/window_compressor.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/cache/cache_types.cuh"
#include "graft/kernels/cuda/row_position.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kStoreThreads = 256;
// compress_windows: a warp has 32 columns and every kGroups-th row of the window.
constexpr int kGroups = 8;
constexpr int kCompressThreads = kGroups * kWarpSize;

struct StoreJob {
  AttentionBatch batch;
  std::int64_t row_size;
  std::int64_t rate;
  WindowRows rows;
  void* cache;
};

// Grid: (rows, column blocks), one thread per column.
template <class Cache>
__global__ void __launch_bounds__(kStoreThreads) store_windows_kernel(StoreJob job) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const RowPosition at = find_row(job.batch, row);
  const std::int64_t slot = job.rows.slots[row];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kStoreThreads + threadIdx.x;
  if (at.sequence < 0 || slot < 0) return;
  const bool exists = col < job.row_size;  // all lanes store together
  const CacheRowAt to = cache_row_at<Cache>(job.cache, slot, 2 * job.row_size);
  const float bias = exists ? job.rows.bias[at.position % job.rate * job.row_size + col] : 0.0F;
  const float value =
      exists ? job.rows.projection.data[row * job.rows.projection.stride + col] : 0.0F;
  const float logit = exists ? job.rows.logits.data[row * job.rows.logits.stride + col] : 0.0F;
  Cache::store_1(to, col, value, exists);
  Cache::store_1(to, job.row_size + col, __fadd_rn(logit, bias), exists);
}

struct CompressJob {
  CompressorShape shape;
  AttentionBatch batch;
  const void* cache;
  Rows sums;
  std::int32_t* positions;
};

// A softmax over some rows and the sum that it weights: weights are e^(logit - max).
struct WindowState {
  float max;
  float sum;
  float value;
};

__device__ WindowState merged(const WindowState& a, const WindowState& b) {
  const float max = fmaxf(a.max, b.max);
  const float base = max == -INFINITY ? 0.0F : max;
  const float first = expf(a.max - base);
  const float second = expf(b.max - base);
  return {max, a.sum * first + b.sum * second, a.value * first + b.value * second};
}

// The rows group, group + kGroups … of the window that begins at `begin`, and of the one before it
// where windows overlap.
template <class Cache>
__device__ WindowState sum_rows(const CompressJob& job,
                                std::int64_t sequence,
                                std::int64_t begin,
                                int group,
                                std::int64_t col) {
  const CompressorShape& shape = job.shape;
  const std::int64_t width = shape.overlaps ? 2 * shape.head_dim : shape.head_dim;
  const std::int64_t num_before = shape.overlaps && begin > 0 ? shape.rate : 0;
  WindowState state = {-INFINITY, 0.0F, 0.0F};
  for (std::int64_t i = group; i < num_before + shape.rate; i += kGroups) {
    const bool is_own = i >= num_before;
    const std::int64_t position = begin - num_before + i;
    const CacheRowAt row =
        cache_row_at<Cache>(job.cache, slot_of(job.batch, sequence, position), 2 * width);
    const std::int64_t at = col + (is_own && shape.overlaps ? shape.head_dim : 0);
    state = merged(state, {Cache::load(row, width + at), 1.0F, Cache::load(row, at)});
  }
  return state;
}

// Grid: (rows, tiles of 32 columns).
template <class Cache>
__global__ void __launch_bounds__(kCompressThreads) compress_windows_kernel(CompressJob job) {
  begin_kernel();
  __shared__ WindowState states[kGroups][kWarpSize];
  const std::int64_t row = blockIdx.x;
  const RowPosition at = find_row(job.batch, row);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto group = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kWarpSize + lane;
  const std::int64_t begin = at.position + 1 - job.shape.rate;
  const bool is_complete = begin >= 0 && begin % job.shape.rate == 0;
  if (at.sequence < 0) return;
  if (blockIdx.y == 0 && threadIdx.x == 0)
    job.positions[row] = is_complete ? static_cast<std::int32_t>(begin) : 0;
  float* to = job.sums.data + row * job.sums.stride + col;
  if (!is_complete) {
    if (group == 0 && col < job.shape.head_dim) *to = 0.0F;
    return;
  }
  if (col < job.shape.head_dim)
    states[group][lane] = sum_rows<Cache>(job, at.sequence, begin, group, col);
  __syncthreads();
  if (group != 0 || col >= job.shape.head_dim) return;
  WindowState state = states[0][lane];
  for (int i = 1; i < kGroups; ++i)
    state = merged(state, states[i][lane]);
  *to = state.value / state.sum;
}

using LaunchStore = void (*)(const StoreJob& job, dim3 grid, Stream stream);
using LaunchCompress = void (*)(const CompressJob& job, dim3 grid, Stream stream);

template <class Cache>
void launch_store(const StoreJob& job, dim3 grid, Stream stream) {
  launch("store_windows", store_windows_kernel<Cache>, {grid, kStoreThreads}, stream, job);
}

template <class Cache>
void launch_compress(const CompressJob& job, dim3 grid, Stream stream) {
  launch("compress_windows", compress_windows_kernel<Cache>, {grid, kCompressThreads}, stream, job);
}

template <class Cache>
struct StoreLauncher {
  static constexpr LaunchStore kLaunch = launch_store<Cache>;
};

template <class Cache>
struct CompressLauncher {
  static constexpr LaunchCompress kLaunch = launch_compress<Cache>;
};

constexpr auto kStoreLaunches = cache_table<LaunchStore, StoreLauncher>();
constexpr auto kCompressLaunches = cache_table<LaunchCompress, CompressLauncher>();

void check_windows(const CompressorShape& shape, const CacheRows& windows) {
  GRAFT_CHECK(is_cache_type(windows.dtype) && windows.key_size == shape.row_size() &&
                  windows.value_size == shape.row_size(),
              "cache of windows of ", windows.key_size, " + ", windows.value_size, " x ",
              name(windows.dtype), ", expected ", shape.row_size(), " each");
}

}  // namespace

void store_windows(const CompressorShape& shape,
                   const AttentionBatch& batch,
                   const WindowRows& rows,
                   const CacheRows& windows,
                   Stream stream) {
  check_windows(shape, windows);
  const dim3 grid(static_cast<unsigned>(batch.num_rows),
                  blocks_for(shape.row_size(), kStoreThreads));
  kStoreLaunches[static_cast<std::size_t>(windows.dtype)]({.batch = batch,
                                                           .row_size = shape.row_size(),
                                                           .rate = shape.rate,
                                                           .rows = rows,
                                                           .cache = windows.data},
                                                          grid, stream);
}

void compress_windows(const CompressorShape& shape,
                      const AttentionBatch& batch,
                      const CacheRows& windows,
                      Rows sums,
                      std::int32_t* positions,
                      Stream stream) {
  check_windows(shape, windows);
  const dim3 grid(static_cast<unsigned>(batch.num_rows), blocks_for(shape.head_dim, kWarpSize));
  kCompressLaunches[static_cast<std::size_t>(windows.dtype)](
      {.shape = shape, .batch = batch, .cache = windows.data, .sums = sums, .positions = positions},
      grid, stream);
}

}  // namespace graft::kernels::cuda
