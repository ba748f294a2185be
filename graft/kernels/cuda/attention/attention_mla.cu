// Absorbed latent attention (MLA) on tensor cores: all heads attend to one latent per position. A
// latent in shared memory serves as key and, its leading value_dim columns, as value.
//
// Block: 8 warps, one tile of kQueryRows query rows (64, or 16 when a sequence has no more)
// of one KV split. Per tile of 32 keys: the warps compute the scores as 16 x 16 products, the
// softmax runs with kThreadsPerRow threads per row, then each warp accumulates 64 of the 512 value
// columns for all rows.
//
//    SharedMemory<64>, 165,120 bytes
//      queries      [64 rows][576 + 8] 16-bit, scaled by scale * log2(e)
//      keys         [2 stages][32 keys][576 + 8] 16-bit, the other stage is in flight
//      weights      [64 rows][32 + 8] 16-bit softmax weights
//      scores       [1 column slice][64 rows][32 + 4] f32; 4 slices for 16 rows
//      correction   [64 rows] f32, factor of the values accumulated so far
//      max_sum      [64 rows] final (max, sum)
//      slots        [2 stages][32 keys] int64, cache row of each key

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/mma.cuh"

// Code below sm_80 has no mma instructions and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kTileKeys = 32;  // keys per shared-memory tile, double-buffered
constexpr int kMmaSize = 16;   // rows, keys and columns of one product
// Query rows per tile; the small tile when a sequence has no more.
constexpr int kLargeTileRows = 64;
constexpr int kSmallTileRows = 16;
constexpr int kVector = 8;  // 16-bit values per 16-byte copy
constexpr int kMaxKeyDim = 576;
constexpr int kMaxValueDim = 512;
constexpr int kWarpCols = kMaxValueDim / kWarps;  // value columns per warp
constexpr int kColFragments = kWarpCols / 8;
// Row strides are padded so that the 8 rows of an ldmatrix hit distinct banks.
constexpr int kKeyStride = kMaxKeyDim + kVector;
constexpr int kScoreStride = kTileKeys + 4;
constexpr int kWeightStride = kTileKeys + kVector;
// Warps that share one 16 x 16 product of scores, each over a slice of the key columns.
template <int kQueryRows>
inline constexpr int kColSlices = kWarps / (kQueryRows / kMmaSize * (kTileKeys / kMmaSize));
template <int kQueryRows>
inline constexpr int kThreadsPerRow = kThreads / kQueryRows;
template <int kQueryRows>
inline constexpr int kKeysPerThread = kTileKeys / kThreadsPerRow<kQueryRows>;

template <int kQueryRows>
struct SharedMemory {
  std::uint16_t queries[kQueryRows * kKeyStride];
  std::uint16_t keys[2][kTileKeys * kKeyStride];
  std::uint16_t weights[kQueryRows * kWeightStride];
  float scores[kColSlices<kQueryRows>][kQueryRows * kScoreStride];
  float correction[kQueryRows];
  float2 max_sum[kQueryRows];
  std::int64_t slots[2][kTileKeys];
};

// to[kQueryRows][kKeyStride] = the tile's queries times scale * log2(e) in the cache dtype, zeros
// past the last row. One warp per row at a time.
template <class Mma, int kQueryRows>
__device__ void load_queries(const AttentionJob& job, const TilePosition& at, std::uint16_t* to) {
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const float scale = job.shape.scale * kLog2E;
  for (int row = static_cast<int>(threadIdx.x) / kWarpSize; row < kQueryRows; row += kWarps) {
    const std::int64_t flat = at.first_flat + row;
    const bool exists = flat < at.end_flat;
    const std::int64_t token = div_u32(flat, at.group_size);
    const float* from = job.queries.data + query_row(job, at.sequence, token) * job.queries.stride +
                        (flat - token * at.group_size) * key_dim;
    constexpr int kSteps = kMaxKeyDim / (2 * kWarpSize);
    static_assert(kMaxKeyDim % (2 * kWarpSize) == 0);
    float2 pairs[kSteps];
    GRAFT_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const int col = 2 * (lane + i * kWarpSize);
      pairs[i] =
          exists && col < key_dim ? make_float2(from[col], from[col + 1]) : make_float2(0.0F, 0.0F);
    }
    GRAFT_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const int col = 2 * (lane + i * kWarpSize);
      if (col < key_dim) {
        *reinterpret_cast<std::uint32_t*>(to + row * kKeyStride + col) =
            Mma::pack(pairs[i].x * scale, pairs[i].y * scale);
      }
    }
  }
}

// Cache rows of the 32 keys from position `begin` on; -1 past the end.
__device__ void load_slots(const AttentionJob& job,
                           const TilePosition& at,
                           std::int64_t begin,
                           std::int64_t* slots) {
  if (threadIdx.x >= kTileKeys) return;
  const std::int64_t position = begin + threadIdx.x;
  slots[threadIdx.x] = position < at.kv_end ? cache_slot(job, at, position) : -1;
}

// Starts async copies of the 32 latents at `slots` to keys[32][kKeyStride]; missing ones are zero.
__device__ void start_tile_copies(const AttentionJob& job,
                                  const std::int64_t* slots,
                                  std::uint16_t* keys) {
  const auto* data = static_cast<const std::uint16_t*>(job.cache);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  GRAFT_UNROLL
  for (int i = 0; i < kTileKeys / kWarps; ++i) {
    const int key = warp + i * kWarps;
    const std::int64_t slot = slots[key];
    const std::uint16_t* from = data + slot * job.cache_row;
    for (int col = lane * kVector; col < job.shape.key_dim; col += kWarpSize * kVector) {
      std::uint16_t* to = keys + key * kKeyStride + col;
      if (slot >= 0) {
        cp_async_16(to, from + col);
      } else {
        *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  cp_async_commit();
}

// The latents of a tile of a quantized cache: load() starts their way to registers, store()
// converts them to keys[32][kKeyStride]. Missing ones are zero.
template <class Cache>
class PendingLatents {
 public:
  __device__ void load(const AttentionJob& job, const std::int64_t* slots) {
    GRAFT_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const Place at = place(i);
      const std::int64_t slot = slots[at.key];
      codes_[i] = typename Cache::Codes{};
      scales_[i] = __half{};
      if (slot < 0 || at.col >= job.shape.key_dim) continue;
      const CacheRowAt row = cache_row_at<Cache>(job.cache, slot, job.cache_row);
      codes_[i] = Cache::load_codes(row, at.col);
      scales_[i] = Cache::load_scale(row, at.col);
    }
  }
  __device__ void store(const AttentionJob& job, std::uint16_t* keys) const {
    GRAFT_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const Place at = place(i);
      if (at.col >= job.shape.key_dim) continue;
      *reinterpret_cast<uint4*>(keys + at.key * kKeyStride + at.col) =
          Cache::halves(codes_[i], scales_[i]);
    }
  }

 private:
  static constexpr int kRowVectors = kMaxKeyDim / kVector;
  static constexpr int kCount = kTileKeys * kRowVectors / kThreads;
  static_assert(kCount * kThreads == kTileKeys * kRowVectors);
  struct Place {
    int key;
    int col;
  };
  static __device__ Place place(int i) {
    const int index = i * kThreads + static_cast<int>(threadIdx.x);
    return {index / kRowVectors, index % kRowVectors * kVector};
  }

  typename Cache::Codes codes_[kCount];
  __half scales_[kCount];
};

struct NoLatents {};

// A warp computes the scores of 16 rows with 16 keys, over its slice of the columns.
template <class Mma, int kQueryRows>
__device__ void score(int key_dim,
                      const std::uint16_t* queries,
                      const std::uint16_t* keys,
                      float (&scores)[kColSlices<kQueryRows>][kQueryRows * kScoreStride]) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int slice = warp % kColSlices<kQueryRows>;
  const int mma_idx = warp / kColSlices<kQueryRows>;
  const int first_row = mma_idx / 2 * kMmaSize;
  const int first_key = mma_idx % 2 * kMmaSize;
  const int steps = key_dim / kMmaSize;
  const int first_col = slice * steps / kColSlices<kQueryRows> * kMmaSize;
  const int end_col = (slice + 1) * steps / kColSlices<kQueryRows> * kMmaSize;
  const std::uint16_t* a_row =
      queries + (first_row + lane / 8 % 2 * 8 + lane % 8) * kKeyStride + lane / 16 * 8;
  const std::uint16_t* b_row =
      keys + (first_key + lane / 16 * 8 + lane % 8) * kKeyStride + lane / 8 % 2 * 8;
  float sums[2][4] = {};
  GRAFT_UNROLL_4
  for (int col = first_col; col < end_col; col += kMmaSize) {
    std::uint32_t a[4];
    std::uint32_t b[4];
    ldmatrix(a_row + col, a);
    ldmatrix(b_row + col, b);
    Mma::mma(a, b[0], b[1], sums[0]);
    Mma::mma(a, b[2], b[3], sums[1]);
  }
  GRAFT_UNROLL
  for (int i = 0; i < 8; ++i) {
    const int row = first_row + lane / 4 + i % 4 / 2 * 8;
    const int key = first_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
    scores[slice][row * kScoreStride + key] = sums[i / 4][i % 4];
  }
}

// Running softmax state of a thread's row; `sum` covers only the thread's keys until the end.
struct RowState {
  float max;
  float sum;
};

// Sums the column slices, masks, and turns scores into weights in shared memory. A thread handles
// kKeysPerThread adjacent keys of one row.
template <class Mma, int kQueryRows>
__device__ void softmax(const AttentionJob& job,
                        const TilePosition& at,
                        std::int64_t begin,
                        SharedMemory<kQueryRows>& shared,
                        RowState& state) {
  constexpr int kCount = kKeysPerThread<kQueryRows>;
  const auto row = static_cast<int>(threadIdx.x) / kThreadsPerRow<kQueryRows>;
  const auto first_key = static_cast<int>(threadIdx.x) % kThreadsPerRow<kQueryRows> * kCount;
  const std::int64_t query_pos = at.first_position + div_u32(at.first_flat + row, at.group_size);
  float weights[kCount];
  float max = state.max;
  GRAFT_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t position = begin + first_key + i;
    weights[i] = shared.scores[0][row * kScoreStride + first_key + i];
    GRAFT_UNROLL
    for (int slice = 1; slice < kColSlices<kQueryRows>; ++slice)
      weights[i] += shared.scores[slice][row * kScoreStride + first_key + i];
    if (position >= at.kv_end || !is_visible(job, query_pos, position)) weights[i] = kNegInf;
    max = fmaxf(max, weights[i]);
  }
  GRAFT_UNROLL
  for (int step = 1; step < kThreadsPerRow<kQueryRows>; step *= 2)
    max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, step));
  const float base = max == kNegInf ? 0.0F : max;
  const float correction = exp2f(state.max - base);
  state.max = max;
  state.sum *= correction;
  GRAFT_UNROLL
  for (float& weight : weights) {
    weight = exp2f(weight - base);
    state.sum += weight;
  }
  if (first_key == 0) shared.correction[row] = correction;
  std::uint16_t* to = shared.weights + row * kWeightStride + first_key;
  if constexpr (kCount == 8) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(Mma::pack(weights[0], weights[1]), Mma::pack(weights[2], weights[3]),
                   Mma::pack(weights[4], weights[5]), Mma::pack(weights[6], weights[7]));
  } else {
    static_assert(kCount == 2);
    *reinterpret_cast<std::uint32_t*>(to) = Mma::pack(weights[0], weights[1]);
  }
}

// A warp's kWarpCols value columns for all rows of the tile, as D fragments.
template <int kQueryRows>
struct WarpValues {
  static constexpr int kRowFragments = kQueryRows / kMmaSize;
  float sums[kRowFragments][kColFragments][4];
};

// Rescales the accumulated values to the new maximum of each row.
template <int kQueryRows>
__device__ void rescale(const float* correction, WarpValues<kQueryRows>& values) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int m = 0; m < WarpValues<kQueryRows>::kRowFragments; ++m) {
    const float first = correction[m * kMmaSize + lane / 4];
    const float second = correction[m * kMmaSize + lane / 4 + 8];
    GRAFT_UNROLL
    for (auto& fragment : values.sums[m]) {
      fragment[0] *= first;
      fragment[1] *= first;
      fragment[2] *= second;
      fragment[3] *= second;
    }
  }
}

// sums += weights[rows, 32] V[32, kWarpCols], V being the leading columns of the latents.
template <class Mma, int kQueryRows>
__device__ void add_values(const std::uint16_t* weights,
                           const std::uint16_t* keys,
                           WarpValues<kQueryRows>& values) {
  constexpr int kRowFragments = WarpValues<kQueryRows>::kRowFragments;
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto first_col = static_cast<int>(threadIdx.x) / kWarpSize * kWarpCols;
  const std::uint16_t* a_row =
      weights + (lane / 8 % 2 * 8 + lane % 8) * kWeightStride + lane / 16 * 8;
  const std::uint16_t* b_row =
      keys + (lane / 8 % 2 * 8 + lane % 8) * kKeyStride + first_col + lane / 16 * 8;
  GRAFT_UNROLL
  for (int k = 0; k < kTileKeys; k += kMmaSize) {
    std::uint32_t a[kRowFragments][4];
    GRAFT_UNROLL
    for (int m = 0; m < kRowFragments; ++m)
      ldmatrix(a_row + m * kMmaSize * kWeightStride + k, a[m]);
    GRAFT_UNROLL
    for (int n = 0; n < kColFragments; n += 2) {
      std::uint32_t b[4];
      ldmatrix_transposed(b_row + k * kKeyStride + 8 * n, b);
      GRAFT_UNROLL
      for (int m = 0; m < kRowFragments; ++m) {
        Mma::mma(a[m], b[0], b[1], values.sums[m][n]);
        Mma::mma(a[m], b[2], b[3], values.sums[m][n + 1]);
      }
    }
  }
}

template <int kQueryRows>
__device__ void write_tile(const AttentionJob& job,
                           const TilePosition& at,
                           const float2* max_sum,
                           const WarpValues<kQueryRows>& values) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto first_col = static_cast<int>(threadIdx.x) / kWarpSize * kWarpCols;
  GRAFT_UNROLL
  for (int i = 0; i < 2 * WarpValues<kQueryRows>::kRowFragments; ++i) {
    const int row = i / 2 * kMmaSize + lane / 4 + i % 2 * 8;
    if (at.first_flat + row >= at.end_flat) continue;
    const bool writes_state = first_col == 0 && lane % 4 == 0;
    const RowTarget target = row_target(job, at, at.first_flat + row, max_sum[row], writes_state);
    GRAFT_UNROLL
    for (int n = 0; n < kColFragments; ++n) {
      const int col = first_col + 8 * n + lane % 4 * 2;
      if (col >= job.shape.value_dim) continue;
      target.to[col] = values.sums[i / 2][n][i % 2 * 2] * target.factor;
      target.to[col + 1] = values.sums[i / 2][n][i % 2 * 2 + 1] * target.factor;
    }
  }
}

// Grid: see tile_position().
template <class Cache, int kQueryRows>
__global__ void __launch_bounds__(kThreads, 1) attention_mla_kernel(AttentionJob job) {
  begin_kernel();
#if GRAFT_HAS_MMA
  using Mma = MmaOf<Cache>;
  constexpr bool kConverts = kIsQuantizedCache<Cache>;
  const TilePosition at = tile_position(job, kQueryRows, kTileKeys);
  if (at.kv_end <= at.kv_begin) return;
  SharedMemory<kQueryRows>& shared = *dynamic_shared<SharedMemory<kQueryRows>>();
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const auto first_col = static_cast<int>(threadIdx.x) / kWarpSize * kWarpCols;
  const bool has_cols = first_col < job.shape.value_dim;
  load_queries<Mma, kQueryRows>(job, at, shared.queries);
  load_slots(job, at, at.kv_begin, shared.slots[0]);
  __syncthreads();
  std::conditional_t<kConverts, PendingLatents<Cache>, NoLatents> pending;
  if constexpr (kConverts) {
    pending.load(job, shared.slots[0]);
    pending.store(job, shared.keys[0]);
  } else {
    start_tile_copies(job, shared.slots[0], shared.keys[0]);
  }
  load_slots(job, at, at.kv_begin + kTileKeys, shared.slots[1]);
  RowState state = {kNegInf, 0.0F};
  WarpValues<kQueryRows> values;
  GRAFT_UNROLL
  for (int i = 0; i < kQueryRows / kMmaSize * kColFragments * 4; ++i)
    values.sums[i / 4 / kColFragments][i / 4 % kColFragments][i % 4] = 0.0F;
  int stage = 0;
  for (std::int64_t begin = at.kv_begin; begin < at.kv_end; begin += kTileKeys) {
    __syncthreads();  // the other stage is consumed and its slots are loaded
    const std::uint16_t* keys = shared.keys[stage];
    if constexpr (kConverts)
      pending.load(job, shared.slots[1 - stage]);
    else
      start_tile_copies(job, shared.slots[1 - stage], shared.keys[1 - stage]);
    load_slots(job, at, begin + 2 * kTileKeys, shared.slots[stage]);
    cp_async_wait<1>();
    __syncthreads();
    score<Mma, kQueryRows>(key_dim, shared.queries, keys, shared.scores);
    __syncthreads();
    softmax<Mma>(job, at, begin, shared, state);
    __syncthreads();
    if (has_cols) {
      rescale(shared.correction, values);
      add_values<Mma>(shared.weights, keys, values);
    }
    if constexpr (kConverts) pending.store(job, shared.keys[1 - stage]);
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  GRAFT_UNROLL
  for (int step = 1; step < kThreadsPerRow<kQueryRows>; step *= 2)
    state.sum += __shfl_xor_sync(kAllLanes, state.sum, step);
  if (threadIdx.x % kThreadsPerRow<kQueryRows> == 0) {
    shared.max_sum[threadIdx.x / kThreadsPerRow<kQueryRows>] = make_float2(state.max, state.sum);
  }
  __syncthreads();
  if (has_cols) write_tile(job, at, shared.max_sum, values);
#else
  __trap();
#endif
}

using Launch = void (*)(const AttentionJob& job, bool large_tile, dim3 grid, Stream stream);

template <class Cache>
void launch_kernel(const AttentionJob& job, bool large_tile, dim3 grid, Stream stream) {
  if (large_tile) {
    launch_with_shared("attention_mla", attention_mla_kernel<Cache, kLargeTileRows>,
                       {grid, kThreads, sizeof(SharedMemory<kLargeTileRows>)}, stream, job);
  } else {
    launch_with_shared("attention_mla", attention_mla_kernel<Cache, kSmallTileRows>,
                       {grid, kThreads, sizeof(SharedMemory<kSmallTileRows>)}, stream, job);
  }
}

template <class Cache>
struct Launcher {
  static constexpr Launch kLaunch = launch_kernel<Cache>;
};
template <>
struct Launcher<CacheF32> {
  static constexpr Launch kLaunch = nullptr;
};

constexpr auto kLaunches = cache_table<Launch, Launcher>();

}  // namespace

std::int64_t mla_tile_rows(bool large_tile) {
  return large_tile ? kLargeTileRows : kSmallTileRows;
}

bool can_run_mla(const AttentionShape& shape, DType cache) {
  const bool is_mla =
      shape.num_kv_heads == 1 && shape.value_offset == 0 && shape.value_dim <= shape.key_dim;
  return shape.arithmetic == Arithmetic::F16 &&
         (cache == DType::F16 || cache == DType::BF16 || can_load_halves(shape, cache)) && is_mla &&
         shape.key_dim <= kMaxKeyDim && shape.key_dim % kMmaSize == 0 &&
         shape.value_dim <= kMaxValueDim && shape.value_dim % kMmaSize == 0 &&
         sizeof(SharedMemory<kLargeTileRows>) <= max_shared_bytes() &&
         is_compiled_for(80, attention_mla_kernel<CacheF16, kLargeTileRows>);
}

void launch_attention_mla(
    const AttentionJob& job, DType cache, bool large_tile, dim3 grid, Stream stream) {
  kLaunches[static_cast<std::size_t>(cache)](job, large_tile, grid, stream);
}

}  // namespace graft::kernels::cuda
