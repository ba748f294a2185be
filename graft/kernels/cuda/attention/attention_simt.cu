#include "graft/kernels/cuda/attention/attention.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kChunk = 32;  // keys at a time: one per lane
constexpr int kCols = 128;  // of keys or values in shared memory at a time
constexpr int kColsPerLane = kCols / kWarpSize;
constexpr int kLine =
    kCols + 4;  // of a row there: lanes that read different rows meet no bank twice

// The queries of the tile, times the scale of the scores in powers of two, each row padded with
// zeros to `line` values.
__device__ void load_queries(
    const AttentionJob& job, const TilePosition& at, int tile_rows, int line, float* to) {
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const float scale = job.shape.scale * kLog2E;
  const std::int64_t first_row = job.batch.first_rows[at.sequence];
  for (int row = static_cast<int>(threadIdx.x) / kWarpSize; row < tile_rows; row += kWarps) {
    const std::int64_t flat = at.first_flat + row;
    const std::int64_t head = at.kv_head * at.group + flat % at.group;
    const float* from =
        job.queries.data + (first_row + flat / at.group) * job.queries.stride + head * key_dim;
    for (int i = static_cast<int>(threadIdx.x) % kWarpSize; i < line; i += kWarpSize)
      to[row * line + i] = flat < at.end_flat && i < key_dim ? from[i] * scale : 0.0F;
  }
}

// Columns [first_col, first_col + num_cols) of the rows at `slots`, the others zero.
template <class Cache>
__device__ void load_tile(const AttentionJob& job,
                          const std::int64_t* slots,
                          std::int64_t first_col,
                          int num_cols,
                          float* tile) {
  const auto* data = static_cast<const typename Cache::Code*>(job.cache);
  const int col = static_cast<int>(threadIdx.x) % kWarpSize * kColsPerLane;
  GRAFT_UNROLL
  for (int i = 0; i < kChunk / kWarps; ++i) {
    const int key = static_cast<int>(threadIdx.x) / kWarpSize + i * kWarps;
    const auto* from = data + slots[key] * job.cache_row + first_col + col;
    float4 values = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (slots[key] >= 0) {
      if (job.vectors && col + kColsPerLane <= num_cols) {
        values = Cache::load_4(from);
      } else {
        if (col < num_cols) values.x = Cache::load(from[0]);
        if (col + 1 < num_cols) values.y = Cache::load(from[1]);
        if (col + 2 < num_cols) values.z = Cache::load(from[2]);
        if (col + 3 < num_cols) values.w = Cache::load(from[3]);
      }
    }
    *reinterpret_cast<float4*>(tile + key * kLine + col) = values;
  }
}

// scores[r] += the lane's key times query row r, over the columns in the tile.
template <int kRows>
__device__ void add_scores(
    const float* tile, const float* queries, int line, int num_cols, float (&scores)[kRows]) {
  const float* key = tile + threadIdx.x % kWarpSize * kLine;
  for (int i = 0; i < num_cols; i += 4) {
    const float4 k = *reinterpret_cast<const float4*>(key + i);
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float4 q = *reinterpret_cast<const float4*>(queries + r * line + i);
      scores[r] = fmaf(q.w, k.w, fmaf(q.z, k.z, fmaf(q.y, k.y, fmaf(q.x, k.x, scores[r]))));
    }
  }
}

// What a warp knows of its rows.
template <int kRows, int kColChunks>
struct RowStates {
  float max[kRows];
  float sum[kRows];
  float values[kRows][kColChunks * kColsPerLane];
};

// scores become weights; what was summed up under a smaller maximum is made smaller.
template <int kRows, int kColChunks>
__device__ void add_softmax(float (&scores)[kRows], RowStates<kRows, kColChunks>& state) {
  GRAFT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const float max = fmaxf(state.max[r], warp_max(scores[r]));
    const float base = max == kNothing ? 0.0F : max;
    const float correction = exp2f(state.max[r] - base);
    scores[r] = exp2f(scores[r] - base);
    state.sum[r] = state.sum[r] * correction + warp_sum(scores[r]);
    state.max[r] = max;
    GRAFT_UNROLL
    for (float& value : state.values[r])
      value *= correction;
  }
}

template <int kRows, int kColChunks>
__device__ void add_values(const float* tile,
                           const float (&weights)[kRows],
                           int chunk,
                           RowStates<kRows, kColChunks>& state) {
  const float* column = tile + threadIdx.x % kWarpSize * kColsPerLane;
  for (int key = 0; key < kChunk; ++key) {
    const float4 v = *reinterpret_cast<const float4*>(column + key * kLine);
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float weight = __shfl_sync(kAllLanes, weights[r], key);
      float* sums = state.values[r] + chunk * kColsPerLane;
      sums[0] = fmaf(weight, v.x, sums[0]);
      sums[1] = fmaf(weight, v.y, sums[1]);
      sums[2] = fmaf(weight, v.z, sums[2]);
      sums[3] = fmaf(weight, v.w, sums[3]);
    }
  }
}

template <int kRows, int kColChunks>
__device__ void write_rows(const AttentionJob& job,
                           const TilePosition& at,
                           const RowStates<kRows, kColChunks>& state) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t flat = at.first_flat + threadIdx.x / kWarpSize * kRows + r;
    if (flat >= at.end_flat) continue;
    const RowTarget target =
        row_target(job, at, flat, make_float2(state.max[r], state.sum[r]), lane == 0);
    GRAFT_UNROLL
    for (int i = 0; i < kColChunks * kColsPerLane; ++i) {
      const int col = i / kColsPerLane * kCols + lane * kColsPerLane + i % kColsPerLane;
      if (col < job.shape.value_dim) target.to[col] = state.values[r][i] * target.factor;
    }
  }
}

// Each warp has kRows rows of the tile; the keys and values in shared memory serve all warps.
template <class Cache, int kRows, int kColChunks>
__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionJob job) {
  constexpr int kTile = kWarps * kRows;
  const TilePosition at = tile_position(job, kTile, kChunk);
  if (at.end <= at.begin) return;
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const int line = (key_dim + 3) / 4 * 4;
  __shared__ std::int64_t slots[kChunk];
  auto* tile = dynamic_shared<float>();    // [kChunk, kLine]
  float* queries = tile + kChunk * kLine;  // [kTile, line]
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto first = static_cast<int>(threadIdx.x) / kWarpSize * kRows;
  load_queries(job, at, kTile, line, queries);
  RowStates<kRows, kColChunks> state;
  GRAFT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    state.max[r] = kNothing;
    state.sum[r] = 0.0F;
    GRAFT_UNROLL
    for (float& value : state.values[r])
      value = 0.0F;
  }
  for (std::int64_t begin = at.begin; begin < at.end; begin += kChunk) {
    const std::int64_t position = begin + lane;
    __syncthreads();  // the chunk before has been used up
    if (threadIdx.x < kChunk) {
      slots[lane] = position < at.end ? cache_slot(job, at.sequence, position) : -1;
    }
    float scores[kRows] = {};
    for (int col = 0; col < key_dim; col += kCols) {
      __syncthreads();
      const int num_cols = key_dim - col < kCols ? key_dim - col : kCols;
      load_tile<Cache>(job, slots, at.kv_head * key_dim + col, num_cols, tile);
      __syncthreads();
      add_scores<kRows>(tile, queries + first * line + col, line, (num_cols + 3) / 4 * 4, scores);
    }
    GRAFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t own = at.first_position + (at.first_flat + first + r) / at.group;
      if (position >= at.end || !sees(job, own, position)) scores[r] = kNothing;
    }
    add_softmax(scores, state);
    GRAFT_UNROLL
    for (int chunk = 0; chunk < kColChunks; ++chunk) {
      const auto left = static_cast<int>(job.shape.value_dim) - chunk * kCols;
      if (left <= 0) continue;
      __syncthreads();
      load_tile<Cache>(job, slots,
                       job.shape.value_offset + at.kv_head * job.shape.value_dim + chunk * kCols,
                       left < kCols ? left : kCols, tile);
      __syncthreads();
      add_values(tile, scores, chunk, state);
    }
  }
  write_rows(job, at, state);
}

// How many rows a warp takes, by the columns of the values: few for decoding, else as many as
// registers hold.
constexpr int kFewRowsPerWarp = 1;
template <int kColChunks>
inline constexpr int kRowsPerWarp = kColChunks == 1 ? 8 : 4;

std::size_t shared_bytes(const AttentionShape& shape, std::int64_t tile_rows) {
  const std::int64_t line = ceil_div(shape.key_dim, 4) * 4;
  return static_cast<std::size_t>(kChunk * kLine + tile_rows * line) * sizeof(float);
}

// Beside those: the numbers of the rows.
constexpr std::size_t kSlotBytes = kChunk * sizeof(std::int64_t);

using Launch = void (*)(const AttentionJob& job,
                        const LaunchShape& shape,
                        bool many,
                        Stream stream);

template <class Cache, int kRows, int kColChunks>
void start(const AttentionJob& job, const LaunchShape& shape, Stream stream) {
  const auto kernel = attention_kernel<Cache, kRows, kColChunks>;
  launch_with_shared("attention", kernel, shape, stream, job);
}

template <class Cache, int kColChunks>
void start(const AttentionJob& job, const LaunchShape& shape, bool many, Stream stream) {
  if (many) {
    start<Cache, kRowsPerWarp<kColChunks>, kColChunks>(job, shape, stream);
  } else {
    start<Cache, kFewRowsPerWarp, kColChunks>(job, shape, stream);
  }
}

template <class Cache>
void launch_attention(const AttentionJob& job, const LaunchShape& shape, bool many, Stream stream) {
  if (job.shape.value_dim <= kCols) {
    start<Cache, 1>(job, shape, many, stream);
  } else if (job.shape.value_dim <= 2 * kCols) {
    start<Cache, 2>(job, shape, many, stream);
  } else {
    start<Cache, 4>(job, shape, many, stream);
  }
}

template <class Cache>
struct Attend {
  static constexpr Launch kLaunch = launch_attention<Cache>;
};

constexpr auto kAttend = cache_table<Launch, Attend>();

}  // namespace

std::int64_t core_tile_rows(const AttentionShape& shape, bool many) {
  if (!many) return kWarps * kFewRowsPerWarp;
  return kWarps * (shape.value_dim <= kCols ? kRowsPerWarp<1> : kRowsPerWarp<4>);
}

bool core_tile_fits(const AttentionShape& shape, bool many) {
  return shape.value_dim <= 4 * kCols &&
         shared_bytes(shape, core_tile_rows(shape, many)) + kSlotBytes <= max_shared_bytes();
}

void launch_on_cores(const AttentionJob& job, DType cache, bool many, dim3 grid, Stream stream) {
  const std::size_t bytes = shared_bytes(job.shape, core_tile_rows(job.shape, many));
  kAttend[static_cast<std::size_t>(cache)](job, {grid, kThreads, bytes}, many, stream);
}

}  // namespace graft::kernels::cuda
