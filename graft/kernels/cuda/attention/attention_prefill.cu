// Attention for prefill on tensor cores: many query rows per KV head, 16-bit keys and values.
//
// Block: 4 warps, a tile of 128 query rows of one KV head and KV split, 32 rows per warp: a key
// fragment that a warp loads from shared memory serves two products. Two blocks fit on a
// multiprocessor; while one computes its softmax, the other keeps the tensor cores busy.
//
//    SharedMemory<192, 128>, 90,624 bytes
//      queries   [128 rows][192] 16-bit, scaled by scale * log2(e)
//      keys      [64 keys][192] 16-bit
//      values    [64 keys][128] 16-bit
//      slots     [2 tiles][64 keys] cache slot of each key, negative: none
//
// The vectors of a row are permuted (vectors.cuh).
//
// Keys and values have one buffer each: values are loaded while the scores are computed, the next
// keys during the softmax and the product with the values. Fragments are those of mma.cuh.

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/mma.cuh"
#include "graft/kernels/cuda/attention/vectors.cuh"

// Code below sm_80 has no mma instructions and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kBlocksPerSm = 2;
constexpr int kRowFragments = 2;  // of 16 query rows, per warp
constexpr int kWarpRows = 16 * kRowFragments;
constexpr int kTileRows = kWarps * kWarpRows;
constexpr int kTileKeys = 64;
constexpr int kKeyFragments = kTileKeys / 8;
constexpr int kRowsPerCopy = kThreads / kLineVectors;  // rows of 128 bytes per step of a copy
constexpr int kMaxHeadDim = 128;
constexpr int kMaxKeyDim = 192;  // with shared columns

template <int kKeyDim, int kValueDim>
struct SharedMemory {
  std::uint16_t queries[kTileRows * kKeyDim];
  std::uint16_t keys[kTileKeys * kKeyDim];
  std::uint16_t values[kTileKeys * kValueDim];
  std::int32_t slots[2][kTileKeys];
};

// to[128][kKeyDim] = the tile's queries times scale * log2(e), zeros past the last row and column.
// A warp loads the rows that it uses.
template <class Mma, int kKeyDim>
__device__ void load_queries(const AttentionJob& job, const TilePosition& at, std::uint32_t to) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const float scale = job.shape.scale * kLog2E;
  for (int i = 0; i < kWarpRows; ++i) {
    const int row = warp * kWarpRows + i;
    const std::int64_t flat = at.first_flat + row;
    const bool exists = flat < at.end_flat;
    const std::int64_t token = div_u32(flat, at.group_size);
    const std::int64_t head = at.kv_head * at.group_size + flat - token * at.group_size;
    const float* from = job.queries.data + head * key_dim;
    if (exists) from += query_row(job, at.sequence, token) * job.queries.stride;
    GRAFT_UNROLL
    for (int first = 0; first < kKeyDim; first += 2 * kWarpSize) {
      const int col = first + 2 * lane;
      const bool inside = exists && col < key_dim;
      const std::uint32_t pair = inside ? Mma::pack(from[col] * scale, from[col + 1] * scale) : 0U;
      const auto address = vector_address<kKeyDim>(to, row, col / kVector) +
                           static_cast<unsigned>(col % kVector * 2);
      store_shared(address, pair);
    }
  }
}

// What the loop over the keys needs of TilePosition, in 32 bits to save registers.
struct Bounds {
  const std::int32_t* block_table;  // null: slots are packed
  int first_slot;
  int kv_head;
  int kv_end;
  int first_position;
  int first_flat;  // of the warp
  int group_size;
  // Positions of the warp's first and last query.
  int first_query;
  int last_query;

  __device__ Bounds(const AttentionJob& job, const TilePosition& at, int first_row)
      : block_table(job.batch.block_tables == nullptr
                        ? nullptr
                        : job.batch.block_tables + at.sequence * job.batch.table_stride),
        first_slot(static_cast<int>(at.first_slot)),
        kv_head(static_cast<int>(at.kv_head)),
        kv_end(static_cast<int>(at.kv_end)),
        first_position(static_cast<int>(at.first_position)),
        first_flat(static_cast<int>(at.first_flat) + first_row),
        group_size(static_cast<int>(at.group_size)),
        first_query(first_position + first_flat / group_size),
        last_query(first_position + (first_flat + kWarpRows - 1) / group_size) {}

  // First position that a query attends to.
  __device__ int visible_begin(const AttentionJob& job, int query) const {
    return static_cast<int>(window_begin(job.shape, query));
  }
};

// The slot of thread t is that of key t of the tile; negative past the end.
__device__ int load_slot(const AttentionJob& job, const Bounds& at, int begin) {
  const int position = begin + static_cast<int>(threadIdx.x);
  if (threadIdx.x >= kTileKeys || position >= at.kv_end) return -1;
  if (at.block_table == nullptr) return at.first_slot + position;
  const auto tokens = static_cast<unsigned>(job.batch.block_tokens);
  const unsigned block = static_cast<unsigned>(position) / tokens;
  return at.block_table[block] * static_cast<int>(tokens) + position -
         static_cast<int>(block * tokens);
}

// Starts async copies of 64 rows of up to kDim columns; 8 threads copy 128 bytes of a row. `locate`
// returns the place of a column in slot 0, the distance of slots, and whether the column exists;
// other columns and missing slots are zeros.
struct Column {
  const std::uint16_t* from;
  std::int64_t stride;
  bool exists;
};

template <int kDim, class Locate>
__device__ void copy_rows_async(const std::int32_t* slots, std::uint32_t to, const Locate& locate) {
  const auto first_row = static_cast<int>(threadIdx.x) / kLineVectors;
  const auto vector = static_cast<int>(threadIdx.x) % kLineVectors;
  GRAFT_UNROLL
  for (int line = 0; line < kDim / kLine; ++line) {
    const Column column = locate(line * kLine + vector * kVector);
    const std::uint32_t address = vector_address<kDim>(to, first_row, line * kLineVectors + vector);
    GRAFT_UNROLL
    for (int i = 0; i < kTileKeys / kRowsPerCopy; ++i) {
      const int slot = slots[first_row + i * kRowsPerCopy];
      const bool exists = column.exists && slot >= 0;
      cp_async_16_or_zero(address + static_cast<std::uint32_t>(i * kRowsPerCopy * kDim * 2),
                          column.from + (exists ? slot * column.stride : 0), exists);
    }
  }
  cp_async_commit();
}

template <int kKeyDim>
__device__ void start_key_copies(const AttentionJob& job,
                                 const Bounds& at,
                                 const KeySource& source,
                                 const std::int32_t* slots,
                                 std::uint32_t to) {
  const std::uint16_t* own = source.keys + at.kv_head * source.key_step;
  copy_rows_async<kKeyDim>(slots, to, [&](int col) -> Column {
    if (col < source.own_dim) return {own + col, source.stride, true};
    if (col < job.shape.key_dim)
      return {source.shared + (col - source.own_dim), source.shared_stride, true};
    return {own, source.stride, false};
  });
}

template <int kValueDim>
__device__ void start_value_copies(const AttentionJob& job,
                                   const Bounds& at,
                                   const KeySource& source,
                                   const std::int32_t* slots,
                                   std::uint32_t to) {
  const std::uint16_t* own = source.values + at.kv_head * source.value_step;
  copy_rows_async<kValueDim>(slots, to, [&](int col) -> Column {
    const bool exists = col < job.shape.value_dim;
    return {exists ? own + col : own, source.stride, exists};
  });
}

using Scores = float[kRowFragments][kKeyFragments][4];

// A warp's 32 query rows. Row state [m][half] belongs to row 16 m + lane / 4 + 8 half; `sum` covers
// only the lane's own keys until finish().
template <class Mma, int kKeyDim, int kValueDim>
struct WarpTile {
  float max[kRowFragments][2];
  float sum[kRowFragments][2];
  float values[kRowFragments][kValueDim / 8][4];

  __device__ void init() {
    GRAFT_UNROLL
    for (int m = 0; m < kRowFragments; ++m) {
      max[m][0] = max[m][1] = kNegInf;
      sum[m][0] = sum[m][1] = 0.0F;
      GRAFT_UNROLL
      for (auto& fragment : values[m])
        fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0F;
    }
  }

  // queries: of the warp's first row.
  __device__ static void score(std::uint32_t queries, std::uint32_t keys, Scores& scores) {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const std::uint32_t a_row =
        vector_address<kKeyDim>(queries, lane / 8 % 2 * 8 + lane % 8, lane / 16);
    const std::uint32_t b_row =
        vector_address<kKeyDim>(keys, lane / 16 * 8 + lane % 8, lane / 8 % 2);
    GRAFT_UNROLL
    for (int i = 0; i < kRowFragments * kKeyFragments * 4; ++i)
      scores[i / 4 / kKeyFragments][i / 4 % kKeyFragments][i % 4] = 0.0F;
    GRAFT_UNROLL
    for (int k = 0; k < kKeyDim / 16; ++k) {
      std::uint32_t a[kRowFragments][4];
      GRAFT_UNROLL
      for (int m = 0; m < kRowFragments; ++m)
        ldmatrix(advance(a_row, 2 * k) + m * 16 * kKeyDim * 2, a[m]);
      GRAFT_UNROLL
      for (int n = 0; n < kKeyFragments; n += 2) {
        std::uint32_t b[4];
        ldmatrix(advance(b_row, 2 * k) + n * 8 * kKeyDim * 2, b);
        GRAFT_UNROLL
        for (int m = 0; m < kRowFragments; ++m) {
          Mma::mma(a[m], b[0], b[1], scores[m][n]);
          Mma::mma(a[m], b[2], b[3], scores[m][n + 1]);
        }
      }
    }
  }

  // Online softmax: turns scores into weights and rescales the state to the new maxima.
  __device__ void add_softmax(Scores& scores) {
    float correction[kRowFragments][2];
    bool is_rescaled = false;
    GRAFT_UNROLL
    for (int m = 0; m < kRowFragments; ++m) {
      GRAFT_UNROLL
      for (int half = 0; half < 2; ++half) {
        float new_max = max[m][half];
        GRAFT_UNROLL
        for (auto& fragment : scores[m])
          new_max = fmaxf(new_max, fmaxf(fragment[2 * half], fragment[2 * half + 1]));
        new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 1));
        new_max = fmaxf(new_max, __shfl_xor_sync(kAllLanes, new_max, 2));
        const float base = new_max == kNegInf ? 0.0F : new_max;
        correction[m][half] = fast_exp2(max[m][half] - base);
        is_rescaled = is_rescaled || new_max != max[m][half];
        max[m][half] = new_max;
        float row_sum = 0.0F;
        GRAFT_UNROLL
        for (auto& fragment : scores[m]) {
          GRAFT_UNROLL
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            fragment[i] = fast_exp2(fragment[i] - base);
            row_sum += fragment[i];
          }
        }
        sum[m][half] = sum[m][half] * correction[m][half] + row_sum;
      }
    }
    // Most tiles leave all maxima of a warp as they were.
    if (!__any_sync(kAllLanes, is_rescaled)) return;
    GRAFT_UNROLL
    for (int m = 0; m < kRowFragments; ++m) {
      GRAFT_UNROLL
      for (auto& fragment : values[m]) {
        fragment[0] *= correction[m][0];
        fragment[1] *= correction[m][0];
        fragment[2] *= correction[m][1];
        fragment[3] *= correction[m][1];
      }
    }
  }

  // values += weights[32, 64] V[64, kValueDim]. The D fragments of the scores are the A fragments
  // of this product.
  __device__ void add_values(const Scores& weights, std::uint32_t from) {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const std::uint32_t row =
        vector_address<kValueDim>(from, lane / 8 % 2 * 8 + lane % 8, lane / 16);
    GRAFT_UNROLL
    for (int k = 0; k < kTileKeys / 16; ++k) {
      std::uint32_t a[kRowFragments][4];
      GRAFT_UNROLL
      for (int m = 0; m < kRowFragments; ++m) {
        GRAFT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const auto& fragment = weights[m][2 * k + i / 2];
          a[m][i] = Mma::pack(fragment[i % 2 * 2], fragment[i % 2 * 2 + 1]);
        }
      }
      GRAFT_UNROLL
      for (int n = 0; n < kValueDim / 8; n += 2) {
        std::uint32_t b[4];
        ldmatrix_transposed(advance(row, n) + k * 16 * kValueDim * 2, b);
        GRAFT_UNROLL
        for (int m = 0; m < kRowFragments; ++m) {
          Mma::mma(a[m], b[0], b[1], values[m][n]);
          Mma::mma(a[m], b[2], b[3], values[m][n + 1]);
        }
      }
    }
  }

  __device__ void finish() {
    GRAFT_UNROLL
    for (auto& halves : sum) {
      GRAFT_UNROLL
      for (float& row_sum : halves) {
        row_sum += __shfl_xor_sync(kAllLanes, row_sum, 1);
        row_sum += __shfl_xor_sync(kAllLanes, row_sum, 2);
      }
    }
  }
};

// Sets the scores of keys outside the causal mask, window or split to -inf.
__device__ void mask_scores(const AttentionJob& job, const Bounds& at, int begin, Scores& scores) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int m = 0; m < kRowFragments; ++m) {
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int flat = at.first_flat + 16 * m + lane / 4 + 8 * half;
      const int query = at.first_position + flat / at.group_size;
      const int end = (query < at.kv_end ? query + 1 : at.kv_end) - begin;
      const int first = at.visible_begin(job, query) - begin;
      GRAFT_UNROLL
      for (int n = 0; n < kKeyFragments; ++n) {
        GRAFT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int key = 8 * n + lane % 4 * 2 + i;
          if (key < first || key >= end) scores[m][n][2 * half + i] = kNegInf;
        }
      }
    }
  }
}

template <class Tile>
__device__ void write_rows(const AttentionJob& job,
                           const TilePosition& at,
                           std::int64_t first_flat,
                           const Tile& tile) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int m = 0; m < kRowFragments; ++m) {
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int64_t flat = first_flat + 16 * m + lane / 4 + 8 * half;
      if (flat >= at.end_flat) continue;
      const RowTarget target = row_target(
          job, at, flat, make_float2(tile.max[m][half], tile.sum[m][half]), lane % 4 == 0);
      int col = lane % 4 * 2;
      GRAFT_UNROLL
      for (const auto& fragment : tile.values[m]) {
        if (col < job.shape.value_dim) {
          target.to[col] = fragment[2 * half] * target.factor;
          target.to[col + 1] = fragment[2 * half + 1] * target.factor;
        }
        col += 8;
      }
    }
  }
}

// Grid: see tile_position().
template <class Mma, int kKeyDim, int kValueDim>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_prefill_kernel(AttentionJob job, KeySource source) {
  begin_kernel();
#if GRAFT_HAS_MMA
  auto& shared = *dynamic_shared<SharedMemory<kKeyDim, kValueDim>>();
  const TilePosition at = tile_position(job, kTileRows, kTileKeys);
  if (at.kv_end <= at.kv_begin) return;
  const std::uint32_t queries = shared_address(shared.queries);
  const std::uint32_t keys = shared_address(shared.keys);
  const std::uint32_t values = shared_address(shared.values);
  const auto first_row = static_cast<int>(threadIdx.x) / kWarpSize * kWarpRows;
  const Bounds bounds(job, at, first_row);
  const auto kv_begin = static_cast<int>(at.kv_begin);
  if (threadIdx.x < kTileKeys) shared.slots[0][threadIdx.x] = load_slot(job, bounds, kv_begin);
  __syncthreads();
  start_key_copies<kKeyDim>(job, bounds, source, shared.slots[0], keys);
  if (threadIdx.x < kTileKeys)
    shared.slots[1][threadIdx.x] = load_slot(job, bounds, kv_begin + kTileKeys);
  load_queries<Mma, kKeyDim>(job, at, queries);
  WarpTile<Mma, kKeyDim, kValueDim> tile;
  tile.init();
  int stage = 0;
  for (int begin = kv_begin; begin < bounds.kv_end; begin += kTileKeys) {
    cp_async_wait<0>();
    __syncthreads();  // the keys are there, the values of the last tile are consumed
    start_value_copies<kValueDim>(job, bounds, source, shared.slots[stage], values);
    // Rows before `begin` see none of the tile's keys.
    const bool is_seen = begin <= bounds.last_query;
    Scores scores;
    if (is_seen) tile.score(queries + first_row * kKeyDim * 2, keys, scores);
    cp_async_wait<0>();
    __syncthreads();  // the values are there, the keys are consumed
    start_key_copies<kKeyDim>(job, bounds, source, shared.slots[1 - stage], keys);
    const int next_slot = load_slot(job, bounds, begin + 2 * kTileKeys);
    if (is_seen) {
      const bool sees_all = begin + kTileKeys <= bounds.kv_end &&
                            begin + kTileKeys - 1 <= bounds.first_query &&
                            begin >= bounds.visible_begin(job, bounds.last_query);
      if (!sees_all) mask_scores(job, bounds, begin, scores);
      tile.add_softmax(scores);
      tile.add_values(scores, values);
    }
    // Until the second barrier of the next tile these slots are not read.
    if (threadIdx.x < kTileKeys) shared.slots[stage][threadIdx.x] = next_slot;
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  tile.finish();
  write_rows(job, at, at.first_flat + first_row, tile);
#else
  __trap();
#endif
}

template <class Mma, int kKeyDim, int kValueDim>
void launch_kernel(const AttentionJob& job, const KeySource& source, dim3 grid, Stream stream) {
  launch_with_shared("attention_prefill", attention_prefill_kernel<Mma, kKeyDim, kValueDim>,
                     {grid, kThreads, sizeof(SharedMemory<kKeyDim, kValueDim>)}, stream, job,
                     source);
}

template <class Mma>
void launch_kernel(const AttentionJob& job, const KeySource& source, dim3 grid, Stream stream) {
  if (job.shape.key_dim <= 64 && job.shape.value_dim <= 64) {
    launch_kernel<Mma, 64, 64>(job, source, grid, stream);
  } else if (job.shape.key_dim <= kMaxHeadDim) {
    launch_kernel<Mma, kMaxHeadDim, kMaxHeadDim>(job, source, grid, stream);
  } else {
    launch_kernel<Mma, kMaxKeyDim, kMaxHeadDim>(job, source, grid, stream);
  }
}

}  // namespace

std::int64_t prefill_tile_rows() {
  return kTileRows;
}

bool can_run_prefill(const AttentionShape& shape, DType cache) {
  return shape.arithmetic == Arithmetic::F16 && (cache == DType::F16 || cache == DType::BF16) &&
         shape.key_dim % kVector == 0 && shape.key_dim <= kMaxKeyDim &&
         shape.value_dim % kVector == 0 && shape.value_dim <= kMaxHeadDim &&
         shape.value_offset % kVector == 0 &&
         kBlocksPerSm * sizeof(SharedMemory<kMaxKeyDim, kMaxHeadDim>) <= max_shared_bytes() &&
         is_compiled_for(80, attention_prefill_kernel<MmaF16, kMaxKeyDim, kMaxHeadDim>);
}

void launch_attention_prefill(
    const AttentionJob& job, const KeySource& source, DType cache, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? launch_kernel<MmaF16> : launch_kernel<MmaBF16>;
  run(job, source, grid, stream);
}

}  // namespace graft::kernels::cuda
