// Attention in f32 arithmetic on CUDA cores, for every cache dtype and head dim.
//
// Block: 8 warps, one tile of 8 * kRowsPerWarp query rows of one KV head and KV split; each warp
// owns kRowsPerWarp rows. Per chunk of 32 keys (one key per lane) all warps share one f32 tile in
// shared memory, first of keys, then of values, 128 columns at a time:
//
//    tile      [32 keys][kTileStride = 128 cols + 4]
//    queries   [tile rows][query_stride = key_dim rounded up to 4], scaled by scale * log2(e)
//    slots     [32] cache row of each key, -1 past the end

#include "graft/kernels/cuda/attention/attention.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kChunkKeys = 32;  // one key per lane
constexpr int kTileCols = 128;  // columns of keys or values in shared memory
constexpr int kColsPerLane = kTileCols / kWarpSize;
// Padded so that lanes reading different rows hit different banks.
constexpr int kTileStride = kTileCols + 4;

// The tile's queries times scale * log2(e), each row zero-padded to query_stride values.
__device__ void load_queries(
    const AttentionJob& job, const TilePosition& at, int tile_rows, int query_stride, float* to) {
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const float scale = job.shape.scale * kLog2E;
  const std::int64_t first_row = query_row(job, at.sequence, 0);
  for (int row = static_cast<int>(threadIdx.x) / kWarpSize; row < tile_rows; row += kWarps) {
    const std::int64_t flat = at.first_flat + row;
    const std::int64_t head = at.kv_head * at.group_size + flat % at.group_size;
    const float* from =
        job.queries.data + (first_row + flat / at.group_size) * job.queries.stride + head * key_dim;
    for (int i = static_cast<int>(threadIdx.x) % kWarpSize; i < query_stride; i += kWarpSize)
      to[row * query_stride + i] = flat < at.end_flat && i < key_dim ? from[i] * scale : 0.0F;
  }
}

// tile[32, 128] = columns [first_col, first_col + num_cols) of the cache rows at `slots`, else
// zeros.
template <class Cache>
__device__ void load_tile(const AttentionJob& job,
                          const std::int64_t* slots,
                          std::int64_t first_col,
                          int num_cols,
                          float* tile) {
  const int col = static_cast<int>(threadIdx.x) % kWarpSize * kColsPerLane;
  GRAFT_UNROLL
  for (int i = 0; i < kChunkKeys / kWarps; ++i) {
    const int key = static_cast<int>(threadIdx.x) / kWarpSize + i * kWarps;
    const CacheRowAt row = cache_row_at<Cache>(job.cache, slots[key], job.cache_row);
    const std::int64_t from = first_col + col;
    float4 values = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (slots[key] >= 0) {
      if (job.vectors && col + kColsPerLane <= num_cols) {
        values = Cache::load_4(row, from);
      } else {
        if (col < num_cols) values.x = Cache::load(row, from);
        if (col + 1 < num_cols) values.y = Cache::load(row, from + 1);
        if (col + 2 < num_cols) values.z = Cache::load(row, from + 2);
        if (col + 3 < num_cols) values.w = Cache::load(row, from + 3);
      }
    }
    *reinterpret_cast<float4*>(tile + key * kTileStride + col) = values;
  }
}

// scores[r] += the lane's key · query row r, over the columns in the tile.
template <int kRowsPerWarp>
__device__ void add_scores(const float* tile,
                           const float* queries,
                           int query_stride,
                           int num_cols,
                           float (&scores)[kRowsPerWarp]) {
  const float* key = tile + threadIdx.x % kWarpSize * kTileStride;
  for (int i = 0; i < num_cols; i += 4) {
    const float4 k = *reinterpret_cast<const float4*>(key + i);
    GRAFT_UNROLL
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const float4 q = *reinterpret_cast<const float4*>(queries + r * query_stride + i);
      scores[r] = fmaf(q.w, k.w, fmaf(q.z, k.z, fmaf(q.y, k.y, fmaf(q.x, k.x, scores[r]))));
    }
  }
}

// Running softmax state (max, sum, weighted values) of the warp's rows. Lane l holds columns 4 l …
// 4 l + 3 of every 128.
template <int kRowsPerWarp, int kColTiles>
struct WarpState {
  float max[kRowsPerWarp];
  float sum[kRowsPerWarp];
  float values[kRowsPerWarp][kColTiles * kColsPerLane];
};

// Online softmax: turns scores into weights and rescales the state to the new maximum.
template <int kRowsPerWarp, int kColTiles>
__device__ void add_softmax(float (&scores)[kRowsPerWarp],
                            WarpState<kRowsPerWarp, kColTiles>& state) {
  GRAFT_UNROLL
  for (int r = 0; r < kRowsPerWarp; ++r) {
    const float max = fmaxf(state.max[r], warp_max(scores[r]));
    const float base = max == kNegInf ? 0.0F : max;
    const float correction = exp2f(state.max[r] - base);
    scores[r] = exp2f(scores[r] - base);
    state.sum[r] = state.sum[r] * correction + warp_sum(scores[r]);
    state.max[r] = max;
    GRAFT_UNROLL
    for (float& value : state.values[r])
      value *= correction;
  }
}

template <int kRowsPerWarp, int kColTiles>
__device__ void add_values(const float* tile,
                           const float (&weights)[kRowsPerWarp],
                           int col_tile,
                           WarpState<kRowsPerWarp, kColTiles>& state) {
  const float* column = tile + threadIdx.x % kWarpSize * kColsPerLane;
  for (int key = 0; key < kChunkKeys; ++key) {
    const float4 v = *reinterpret_cast<const float4*>(column + key * kTileStride);
    GRAFT_UNROLL
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const float weight = __shfl_sync(kAllLanes, weights[r], key);
      float* sums = state.values[r] + col_tile * kColsPerLane;
      sums[0] = fmaf(weight, v.x, sums[0]);
      sums[1] = fmaf(weight, v.y, sums[1]);
      sums[2] = fmaf(weight, v.z, sums[2]);
      sums[3] = fmaf(weight, v.w, sums[3]);
    }
  }
}

template <int kRowsPerWarp, int kColTiles>
__device__ void write_rows(const AttentionJob& job,
                           const TilePosition& at,
                           const WarpState<kRowsPerWarp, kColTiles>& state) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int r = 0; r < kRowsPerWarp; ++r) {
    const std::int64_t flat = at.first_flat + threadIdx.x / kWarpSize * kRowsPerWarp + r;
    if (flat >= at.end_flat) continue;
    const RowTarget target =
        row_target(job, at, flat, make_float2(state.max[r], state.sum[r]), lane == 0);
    GRAFT_UNROLL
    for (int i = 0; i < kColTiles * kColsPerLane; ++i) {
      const int col = i / kColsPerLane * kTileCols + lane * kColsPerLane + i % kColsPerLane;
      if (col < job.shape.value_dim) target.to[col] = state.values[r][i] * target.factor;
    }
  }
}

// Grid: see tile_position().
template <class Cache, int kRowsPerWarp, int kColTiles>
__global__ void __launch_bounds__(kThreads) attention_simt_kernel(AttentionJob job) {
  begin_kernel();
  constexpr int kTileRows = kWarps * kRowsPerWarp;
  const TilePosition at = tile_position(job, kTileRows, kChunkKeys);
  if (at.kv_end <= at.kv_begin) return;
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const int query_stride = (key_dim + 3) / 4 * 4;
  __shared__ std::int64_t slots[kChunkKeys];
  auto* tile = dynamic_shared<float>();              // [kChunkKeys, kTileStride]
  float* queries = tile + kChunkKeys * kTileStride;  // [kTileRows, query_stride]
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto first = static_cast<int>(threadIdx.x) / kWarpSize * kRowsPerWarp;
  load_queries(job, at, kTileRows, query_stride, queries);
  WarpState<kRowsPerWarp, kColTiles> state;
  GRAFT_UNROLL
  for (int r = 0; r < kRowsPerWarp; ++r) {
    state.max[r] = kNegInf;
    state.sum[r] = 0.0F;
    GRAFT_UNROLL
    for (float& value : state.values[r])
      value = 0.0F;
  }
  for (std::int64_t begin = at.kv_begin; begin < at.kv_end; begin += kChunkKeys) {
    const std::int64_t position = begin + lane;
    __syncthreads();  // the previous chunk is consumed
    if (threadIdx.x < kChunkKeys) {
      slots[lane] = position < at.kv_end ? cache_slot(job, at, position) : -1;
    }
    float scores[kRowsPerWarp] = {};
    for (int col = 0; col < key_dim; col += kTileCols) {
      __syncthreads();
      const int num_cols = key_dim - col < kTileCols ? key_dim - col : kTileCols;
      load_tile<Cache>(job, slots, at.kv_head * key_dim + col, num_cols, tile);
      __syncthreads();
      add_scores<kRowsPerWarp>(tile, queries + first * query_stride + col, query_stride,
                               (num_cols + 3) / 4 * 4, scores);
    }
    GRAFT_UNROLL
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const std::int64_t query_pos =
          at.first_position + (at.first_flat + first + r) / at.group_size;
      if (position >= at.kv_end || !is_visible(job, query_pos, position)) scores[r] = kNegInf;
    }
    add_softmax(scores, state);
    GRAFT_UNROLL
    for (int col_tile = 0; col_tile < kColTiles; ++col_tile) {
      const auto left = static_cast<int>(job.shape.value_dim) - col_tile * kTileCols;
      if (left <= 0) continue;
      __syncthreads();
      load_tile<Cache>(
          job, slots,
          job.shape.value_offset + at.kv_head * job.shape.value_dim + col_tile * kTileCols,
          left < kTileCols ? left : kTileCols, tile);
      __syncthreads();
      add_values(tile, scores, col_tile, state);
    }
  }
  write_rows(job, at, state);
}

// Query rows per warp: one for decode, else as many as the registers hold.
constexpr int kSmallRowsPerWarp = 1;
template <int kColTiles>
inline constexpr int kLargeRowsPerWarp = kColTiles == 1 ? 8 : 4;

std::size_t shared_bytes(const AttentionShape& shape, std::int64_t tile_rows) {
  const std::int64_t query_stride = ceil_div(shape.key_dim, 4) * 4;
  return static_cast<std::size_t>(kChunkKeys * kTileStride + tile_rows * query_stride) *
         sizeof(float);
}

// Static shared memory of the kernel.
constexpr std::size_t kSlotBytes = kChunkKeys * sizeof(std::int64_t);

using Launch = void (*)(const AttentionJob& job,
                        const LaunchShape& shape,
                        bool large_tile,
                        Stream stream);

template <class Cache, int kRowsPerWarp, int kColTiles>
void launch_kernel(const AttentionJob& job, const LaunchShape& shape, Stream stream) {
  const auto kernel = attention_simt_kernel<Cache, kRowsPerWarp, kColTiles>;
  launch_with_shared("attention_simt", kernel, shape, stream, job);
}

template <class Cache, int kColTiles>
void launch_kernel(const AttentionJob& job,
                   const LaunchShape& shape,
                   bool large_tile,
                   Stream stream) {
  if (large_tile) {
    launch_kernel<Cache, kLargeRowsPerWarp<kColTiles>, kColTiles>(job, shape, stream);
  } else {
    launch_kernel<Cache, kSmallRowsPerWarp, kColTiles>(job, shape, stream);
  }
}

template <class Cache>
void launch_for_cache(const AttentionJob& job,
                      const LaunchShape& shape,
                      bool large_tile,
                      Stream stream) {
  if (job.shape.value_dim <= kTileCols) {
    launch_kernel<Cache, 1>(job, shape, large_tile, stream);
  } else if (job.shape.value_dim <= 2 * kTileCols) {
    launch_kernel<Cache, 2>(job, shape, large_tile, stream);
  } else {
    launch_kernel<Cache, 4>(job, shape, large_tile, stream);
  }
}

template <class Cache>
struct Launcher {
  static constexpr Launch kLaunch = launch_for_cache<Cache>;
};

constexpr auto kLaunches = cache_table<Launch, Launcher>();

}  // namespace

std::int64_t simt_tile_rows(const AttentionShape& shape, bool large_tile) {
  if (!large_tile) return kWarps * kSmallRowsPerWarp;
  return kWarps * (shape.value_dim <= kTileCols ? kLargeRowsPerWarp<1> : kLargeRowsPerWarp<4>);
}

bool simt_tile_fits(const AttentionShape& shape, bool large_tile) {
  return shape.value_dim <= 4 * kTileCols &&
         shared_bytes(shape, simt_tile_rows(shape, large_tile)) + kSlotBytes <= max_shared_bytes();
}

void launch_attention_simt(
    const AttentionJob& job, DType cache, bool large_tile, dim3 grid, Stream stream) {
  const std::size_t bytes = shared_bytes(job.shape, simt_tile_rows(job.shape, large_tile));
  kLaunches[static_cast<std::size_t>(cache)](job, {grid, kThreads, bytes}, large_tile, stream);
}

}  // namespace graft::kernels::cuda
