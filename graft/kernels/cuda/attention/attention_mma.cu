// Attention on tensor cores (FlashAttention style) for F16 and BF16 caches and head dims up to 128.
//
// Block: 4 warps, one tile of query rows of one KV head and KV split. Large tile: 64 rows, 16 per
// warp, every warp sees all keys. Small tile: all warps share the same 16 rows, each warp takes 16
// of every 64 keys, and the warps are merged at the end. Keys and values are loaded by cp.async,
// double-buffered:
//
//    Stages<kHeadDim>, 70,656 bytes for kHeadDim 128
//      tiles[stage].keys     [64 keys][kHeadDim + 8] 16-bit, rows padded by 16 bytes
//      tiles[stage].values   [64 keys][kHeadDim + 8] 16-bit
//      slots[stage]          [64 keys] int64, cache row of each key
//
// Scores S[16, 8] = Q[16, 16] K^T[16, 8] and O[16, 8] += P[16, 16] V[16, 8] are m16n8k16 products
// with the fragment layout of mma.cuh: lane l holds rows l / 4 and l / 4 + 8, columns 2 (l % 4) and
// the next.

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/mma.cuh"

// Code below sm_80 has no mma instructions and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kTileKeys = 64;       // keys per shared-memory tile
constexpr int kWarpQueryRows = 16;  // rows of an mma A operand
constexpr int kVector = 8;          // 16-bit values per 16-byte copy
constexpr int kMaxHeadDim = 128;

// Keys and values of 64 positions. The padded stride puts the 8 rows of an ldmatrix on distinct
// banks.
template <int kHeadDim>
struct KvTile {
  static constexpr int kStride = kHeadDim + kVector;
  std::uint16_t keys[kTileKeys * kStride];
  std::uint16_t values[kTileKeys * kStride];
};

// Two stages: while one tile is used, the next is in flight.
template <int kHeadDim>
struct Stages {
  KvTile<kHeadDim> tiles[2];
  std::int64_t slots[2][kTileKeys];
};

// Cache rows of the 64 keys from position `begin` on; -1 past the end.
__device__ void load_slots(const AttentionJob& job,
                           const TilePosition& at,
                           std::int64_t begin,
                           std::int64_t* slots) {
  if (threadIdx.x >= kTileKeys) return;
  const std::int64_t position = begin + threadIdx.x;
  slots[threadIdx.x] = position < at.kv_end ? cache_slot(job, at, position) : -1;
}

// Starts async copies of columns [first_col, first_col + num_cols) of the cache rows at `slots` to
// to[64][kStride]; the rest is zero-filled.
template <int kHeadDim>
__device__ void copy_rows_async(const AttentionJob& job,
                                const std::int64_t* slots,
                                std::int64_t first_col,
                                std::int64_t num_cols,
                                std::uint16_t* to) {
  constexpr int kPerRow = kHeadDim / kVector;
  const auto* data = static_cast<const std::uint16_t*>(job.cache) + first_col;
  GRAFT_UNROLL_4
  for (int i = 0; i < kTileKeys * kPerRow / kThreads; ++i) {
    const int item = i * kThreads + static_cast<int>(threadIdx.x);
    const int key = item / kPerRow;
    const int col = item % kPerRow * kVector;
    std::uint16_t* dest = to + key * KvTile<kHeadDim>::kStride + col;
    if (slots[key] >= 0 && col < num_cols) {
      cp_async_16(dest, data + slots[key] * job.cache_row + col);
    } else {
      *reinterpret_cast<uint4*>(dest) = make_uint4(0, 0, 0, 0);
    }
  }
}

template <int kHeadDim>
__device__ void start_tile_copies(const AttentionJob& job,
                                  const TilePosition& at,
                                  int stage,
                                  Stages<kHeadDim>& stages) {
  const AttentionShape& shape = job.shape;
  KvTile<kHeadDim>& tile = stages.tiles[stage];
  copy_rows_async<kHeadDim>(job, stages.slots[stage], at.kv_head * shape.key_dim, shape.key_dim,
                            tile.keys);
  copy_rows_async<kHeadDim>(job, stages.slots[stage],
                            shape.value_offset + at.kv_head * shape.value_dim, shape.value_dim,
                            tile.values);
  cp_async_commit();
}

// A warp's 16 query rows as mma A fragments and their running softmax state. Index `half` selects
// row lane / 4 + 8 * half; `sum` covers only the lane's own columns until finish().
template <class Mma, int kHeadDim, int kWarpKeys>
struct WarpTile {
  std::uint32_t queries[kHeadDim / 16][4];
  float max[2];
  float sum[2];
  float values[kHeadDim / 8][4];

  __device__ void init(const AttentionJob& job, const TilePosition& at, std::int64_t first_flat) {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const float scale = job.shape.scale * kLog2E;
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      max[half] = kNegInf;
      sum[half] = 0.0F;
      const std::int64_t flat = first_flat + lane / 4 + 8 * half;
      const bool exists = flat < at.end_flat;
      const std::int64_t row = query_row(job, at.sequence, flat / at.group_size);
      const std::int64_t head = at.kv_head * at.group_size + flat % at.group_size;
      const float* from = job.queries.data + row * job.queries.stride + head * job.shape.key_dim;
      GRAFT_UNROLL
      for (int i = 0; i < kHeadDim / 8; ++i) {
        const int col = 8 * i + lane % 4 * 2;
        const bool inside = exists && col < job.shape.key_dim;
        queries[i / 2][i % 2 * 2 + half] =
            inside ? Mma::pack(from[col] * scale, from[col + 1] * scale) : 0U;
      }
    }
    GRAFT_UNROLL
    for (auto& fragment : values)
      fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0F;
  }

  // scores[j]: D fragment of the 16 rows and keys 8 j … 8 j + 7.
  __device__ void score(const std::uint16_t* keys, float (&scores)[kWarpKeys / 8][4]) const {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const std::uint16_t* row =
        keys + (lane / 16 * 8 + lane % 8) * KvTile<kHeadDim>::kStride + lane / 8 % 2 * 8;
    GRAFT_UNROLL
    for (int j = 0; j < kWarpKeys / 8; j += 2) {
      GRAFT_UNROLL
      for (int i = 0; i < 4; ++i)
        scores[j][i] = scores[j + 1][i] = 0.0F;
      GRAFT_UNROLL
      for (int k = 0; k < kHeadDim / 16; ++k) {
        std::uint32_t b[4];
        ldmatrix(row + 8 * j * KvTile<kHeadDim>::kStride + 16 * k, b);
        Mma::mma(queries[k], b[0], b[1], scores[j]);
        Mma::mma(queries[k], b[2], b[3], scores[j + 1]);
      }
    }
  }

  // Online softmax: turns scores into weights and rescales the state to the new maximum.
  __device__ void add_softmax(float (&scores)[kWarpKeys / 8][4]) {
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      float new_max = max[half];
      GRAFT_UNROLL
      for (auto& fragment : scores)
        new_max = fmaxf(new_max, fmaxf(fragment[2 * half], fragment[2 * half + 1]));
      new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 1));
      new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 2));
      const float base = new_max == kNegInf ? 0.0F : new_max;
      const float correction = exp2f(max[half] - base);
      max[half] = new_max;
      sum[half] *= correction;
      GRAFT_UNROLL
      for (auto& fragment : scores) {
        GRAFT_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          fragment[i] = exp2f(fragment[i] - base);
          sum[half] += fragment[i];
        }
      }
      GRAFT_UNROLL
      for (auto& fragment : values) {
        fragment[2 * half] *= correction;
        fragment[2 * half + 1] *= correction;
      }
    }
  }

  // values += weights[16, kWarpKeys] V[kWarpKeys, kHeadDim]. The D fragments of the scores are the
  // A fragments of this product.
  __device__ void add_values(const float (&weights)[kWarpKeys / 8][4], const std::uint16_t* from) {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const std::uint16_t* row =
        from + (lane / 8 % 2 * 8 + lane % 8) * KvTile<kHeadDim>::kStride + lane / 16 * 8;
    GRAFT_UNROLL
    for (int k = 0; k < kWarpKeys / 16; ++k) {
      const auto& first = weights[2 * k];
      const auto& second = weights[2 * k + 1];
      const std::uint32_t a[4] = {Mma::pack(first[0], first[1]), Mma::pack(first[2], first[3]),
                                  Mma::pack(second[0], second[1]), Mma::pack(second[2], second[3])};
      GRAFT_UNROLL
      for (int n = 0; n < kHeadDim / 8; n += 2) {
        std::uint32_t b[4];
        ldmatrix_transposed(row + 16 * k * KvTile<kHeadDim>::kStride + 8 * n, b);
        Mma::mma(a, b[0], b[1], values[n]);
        Mma::mma(a, b[2], b[3], values[n + 1]);
      }
    }
  }

  __device__ void finish() {
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(kAllLanes, sum[half], 1);
      sum[half] += __shfl_xor_sync(kAllLanes, sum[half], 2);
    }
  }
};

// Sets the scores of keys outside the causal mask, window or split to -inf. first: position of the
// first key.
template <int kFragments>
__device__ void mask_scores(const AttentionJob& job,
                            const TilePosition& at,
                            std::int64_t first_flat,
                            std::int64_t first,
                            float (&scores)[kFragments][4]) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t query_pos =
        at.first_position + (first_flat + lane / 4 + 8 * half) / at.group_size;
    const std::int64_t begin = window_begin(job.shape, query_pos);
    const std::int64_t end = query_pos + 1 < at.kv_end ? query_pos + 1 : at.kv_end;
    GRAFT_UNROLL
    for (int j = 0; j < kFragments; ++j) {
      GRAFT_UNROLL
      for (int i = 0; i < 2; ++i) {
        const std::int64_t position = first + 8 * j + lane % 4 * 2 + i;
        if (position < begin || position >= end) scores[j][2 * half + i] = kNegInf;
      }
    }
  }
}

// Whether every row of the tile attends to all 64 keys from `begin` on.
__device__ bool all_visible(const AttentionJob& job, const TilePosition& at, std::int64_t begin) {
  const std::int64_t first_query_pos = at.first_position + at.first_flat / at.group_size;
  const std::int64_t last_query_pos = at.first_position + (at.end_flat - 1) / at.group_size;
  return begin + kTileKeys <= at.kv_end && begin + kTileKeys - 1 <= first_query_pos &&
         begin >= window_begin(job.shape, last_query_pos);
}

template <class Rows>
__device__ void write_rows(const AttentionJob& job,
                           const TilePosition& at,
                           std::int64_t first_flat,
                           const Rows& rows) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t flat = first_flat + lane / 4 + 8 * half;
    if (flat >= at.end_flat) continue;
    const RowTarget target =
        row_target(job, at, flat, make_float2(rows.max[half], rows.sum[half]), lane % 4 == 0);
    int col = lane % 4 * 2;
    GRAFT_UNROLL
    for (const auto& fragment : rows.values) {
      if (col < job.shape.value_dim) {
        target.to[col] = fragment[2 * half] * target.factor;
        target.to[col + 1] = fragment[2 * half + 1] * target.factor;
      }
      col += 8;
    }
  }
}

// Small tile: partial softmax states of the warps. Reuses the memory of Stages.
template <int kHeadDim>
struct WarpPartials {
  float values[kWarps][kWarpQueryRows][kHeadDim];
  float2 max_sum[kWarps][kWarpQueryRows];
};

template <int kHeadDim, class Rows>
__device__ void store_partials(const Rows& rows, WarpPartials<kHeadDim>& partials) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  GRAFT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    if (lane % 4 == 0) partials.max_sum[warp][row] = make_float2(rows.max[half], rows.sum[half]);
    float* to = partials.values[warp][row] + lane % 4 * 2;
    GRAFT_UNROLL
    for (int n = 0; n < kHeadDim / 8; ++n) {
      to[8 * n] = rows.values[n][2 * half];
      to[8 * n + 1] = rows.values[n][2 * half + 1];
    }
  }
}

// Merges the warps in ascending order and stores the rows, one warp per row at a time.
template <int kHeadDim>
__device__ void merge_warps(const AttentionJob& job,
                            const TilePosition& at,
                            const WarpPartials<kHeadDim>& partials) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int row = static_cast<int>(threadIdx.x) / kWarpSize; row < kWarpQueryRows; row += kWarps) {
    if (at.first_flat + row >= at.end_flat) return;
    float max = kNegInf;
    GRAFT_UNROLL
    for (int w = 0; w < kWarps; ++w)
      max = fmaxf(max, partials.max_sum[w][row].x);
    const float base = max == kNegInf ? 0.0F : max;
    float factors[kWarps];
    float sum = 0.0F;
    GRAFT_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      factors[w] = exp2f(partials.max_sum[w][row].x - base);
      sum += partials.max_sum[w][row].y * factors[w];
    }
    const RowTarget target =
        row_target(job, at, at.first_flat + row, make_float2(max, sum), lane == 0);
    for (int col = lane; col < job.shape.value_dim; col += kWarpSize) {
      float value = 0.0F;
      GRAFT_UNROLL
      for (int w = 0; w < kWarps; ++w)
        value += partials.values[w][row][col] * factors[w];
      target.to[col] = value * target.factor;
    }
  }
}

// Grid: see tile_position().
template <class Mma, int kHeadDim, bool kLargeTile>
__global__ void __launch_bounds__(kThreads) attention_mma_kernel(AttentionJob job) {
  begin_kernel();
#if GRAFT_HAS_MMA
  constexpr int kWarpKeys = kLargeTile ? kTileKeys : kTileKeys / kWarps;
  auto& stages = *dynamic_shared<Stages<kHeadDim>>();
  const TilePosition at =
      tile_position(job, kLargeTile ? kWarps * kWarpQueryRows : kWarpQueryRows, kTileKeys);
  if (at.kv_end <= at.kv_begin) return;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t first_flat = at.first_flat + (kLargeTile ? warp * kWarpQueryRows : 0);
  const int first_key = kLargeTile ? 0 : warp * kWarpKeys;
  load_slots(job, at, at.kv_begin, stages.slots[0]);
  __syncthreads();
  start_tile_copies<kHeadDim>(job, at, 0, stages);
  load_slots(job, at, at.kv_begin + kTileKeys, stages.slots[1]);
  WarpTile<Mma, kHeadDim, kWarpKeys> rows;
  rows.init(job, at, first_flat);
  int stage = 0;
  for (std::int64_t begin = at.kv_begin; begin < at.kv_end; begin += kTileKeys) {
    __syncthreads();  // the other stage is consumed and its slots are loaded
    start_tile_copies<kHeadDim>(job, at, 1 - stage, stages);
    load_slots(job, at, begin + 2 * kTileKeys, stages.slots[stage]);
    cp_async_wait<1>();
    __syncthreads();
    const KvTile<kHeadDim>& tile = stages.tiles[stage];
    float scores[kWarpKeys / 8][4];
    rows.score(tile.keys + first_key * KvTile<kHeadDim>::kStride, scores);
    if (!all_visible(job, at, begin)) mask_scores(job, at, first_flat, begin + first_key, scores);
    rows.add_softmax(scores);
    rows.add_values(scores, tile.values + first_key * KvTile<kHeadDim>::kStride);
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  rows.finish();
  if constexpr (kLargeTile) {
    write_rows(job, at, first_flat, rows);
  } else {
    auto& partials = *dynamic_shared<WarpPartials<kHeadDim>>();
    static_assert(sizeof(partials) <= sizeof(stages));
    __syncthreads();  // the last tile is consumed
    store_partials<kHeadDim>(rows, partials);
    __syncthreads();
    merge_warps<kHeadDim>(job, at, partials);
  }
#else
  __trap();
#endif
}

template <class Mma, int kHeadDim>
void launch_kernel(const AttentionJob& job, bool large_tile, dim3 grid, Stream stream) {
  const auto kernel = large_tile ? attention_mma_kernel<Mma, kHeadDim, true>
                                 : attention_mma_kernel<Mma, kHeadDim, false>;
  launch_with_shared("attention_mma", kernel, {grid, kThreads, sizeof(Stages<kHeadDim>)}, stream,
                     job);
}

template <class Mma>
void launch_kernel(const AttentionJob& job, bool large_tile, dim3 grid, Stream stream) {
  if (job.shape.key_dim <= 64 && job.shape.value_dim <= 64) {
    launch_kernel<Mma, 64>(job, large_tile, grid, stream);
  } else {
    launch_kernel<Mma, kMaxHeadDim>(job, large_tile, grid, stream);
  }
}

}  // namespace

std::int64_t mma_tile_rows(bool large_tile) {
  return large_tile ? kWarps * kWarpQueryRows : kWarpQueryRows;
}

bool can_run_mma(const AttentionShape& shape, DType cache) {
  const auto fits = [](std::int64_t dim) { return dim % kVector == 0 && dim <= kMaxHeadDim; };
  return shape.arithmetic == Arithmetic::F16 && (cache == DType::F16 || cache == DType::BF16) &&
         fits(shape.key_dim) && fits(shape.value_dim) && shape.value_offset % kVector == 0 &&
         sizeof(Stages<kMaxHeadDim>) <= max_shared_bytes() &&
         is_compiled_for(80, attention_mma_kernel<MmaF16, kMaxHeadDim, true>);
}

void launch_attention_mma(
    const AttentionJob& job, DType cache, bool large_tile, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? launch_kernel<MmaF16> : launch_kernel<MmaBF16>;
  run(job, large_tile, grid, stream);
}

}  // namespace graft::kernels::cuda
