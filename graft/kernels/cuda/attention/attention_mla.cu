// Attention of many heads to the same latents, on tensor cores. The latents that are in shared
// memory serve as keys and, their leading part, as values.

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/linear/mma.cuh"

// Code for GPUs without these instructions uses none of the functions below.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kKeys = 32;  // in shared memory at a time; the next ones are on their way
constexpr int kSide = 16;
// Rows of queries: few where a token's heads are no more.
constexpr int kManyRows = 64;
constexpr int kFewRows = 16;
constexpr int kVector = 8;
constexpr int kMaxKeyDim = 576;
constexpr int kMaxValueDim = 512;
constexpr int kWarpCols = kMaxValueDim / kWarps;  // of the values, by warp
constexpr int kColPieces = kWarpCols / 8;
// Lines are padded so that eight rows meet no bank twice.
constexpr int kLine = kMaxKeyDim + kVector;
constexpr int kScoreLine = kKeys + 4;
constexpr int kWeightLine = kKeys + kVector;
// Warps that share 16 rows by 16 keys of scores, each having a part of the columns.
template <int kTile>
inline constexpr int kSlices = kWarps / (kTile / kSide * (kKeys / kSide));
template <int kTile>
inline constexpr int kThreadsPerRow = kThreads / kTile;
template <int kTile>
inline constexpr int kKeysPerThread = kKeys / kThreadsPerRow<kTile>;

template <int kTile>
struct Memory {
  std::uint16_t queries[kTile * kLine];
  std::uint16_t keys[2][kKeys * kLine];
  std::uint16_t weights[kTile * kWeightLine];
  float scores[kSlices<kTile>][kTile * kScoreLine];
  float correction[kTile];
  float2 max_sum[kTile];
  std::int64_t slots[2][kKeys];
};

template <class Mma, int kTile>
__device__ void load_queries(const AttentionJob& job, const TilePosition& at, std::uint16_t* to) {
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const float scale = job.shape.scale * kLog2E;
  for (int row = static_cast<int>(threadIdx.x) / kWarpSize; row < kTile; row += kWarps) {
    const std::int64_t flat = at.first_flat + row;
    const bool exists = flat < at.end_flat;
    const std::int64_t token = quotient(flat, at.group);
    const float* from = job.queries.data +
                        (job.batch.first_rows[at.sequence] + token) * job.queries.stride +
                        (flat - token * at.group) * key_dim;
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
        *reinterpret_cast<std::uint32_t*>(to + row * kLine + col) =
            Mma::pack(pairs[i].x * scale, pairs[i].y * scale);
      }
    }
  }
}

// For the keys from `begin` on; -1 past the end.
__device__ void find_slots(const AttentionJob& job,
                           const TilePosition& at,
                           std::int64_t begin,
                           std::int64_t* slots) {
  if (threadIdx.x >= kKeys) return;
  const std::int64_t position = begin + threadIdx.x;
  slots[threadIdx.x] = position < at.end ? cache_slot(job, at.sequence, position) : -1;
}

__device__ void start_copies(const AttentionJob& job,
                             const std::int64_t* slots,
                             std::uint16_t* keys) {
  const auto* data = static_cast<const std::uint16_t*>(job.cache);
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  GRAFT_UNROLL
  for (int i = 0; i < kKeys / kWarps; ++i) {
    const int key = warp + i * kWarps;
    const std::int64_t slot = slots[key];
    const std::uint16_t* from = data + slot * job.cache_row;
    for (int col = lane * kVector; col < job.shape.key_dim; col += kWarpSize * kVector) {
      std::uint16_t* to = keys + key * kLine + col;
      if (slot >= 0) {
        copy_16_bytes(to, from + col);
      } else {
        *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  end_copies();
}

// A warp computes the scores of 16 rows with 16 keys, or what a part of the columns adds to them.
template <class Mma, int kTile>
__device__ void score(int key_dim,
                      const std::uint16_t* queries,
                      const std::uint16_t* keys,
                      float (&scores)[kSlices<kTile>][kTile * kScoreLine]) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int slice = warp % kSlices<kTile>;
  const int place = warp / kSlices<kTile>;
  const int first_row = place / 2 * kSide;
  const int first_key = place % 2 * kSide;
  const int steps = key_dim / kSide;
  const int first_col = slice * steps / kSlices<kTile> * kSide;
  const int end_col = (slice + 1) * steps / kSlices<kTile> * kSide;
  const std::uint16_t* a_row =
      queries + (first_row + lane / 8 % 2 * 8 + lane % 8) * kLine + lane / 16 * 8;
  const std::uint16_t* b_row =
      keys + (first_key + lane / 16 * 8 + lane % 8) * kLine + lane / 8 % 2 * 8;
  float sums[2][4] = {};
  GRAFT_UNROLL_4
  for (int col = first_col; col < end_col; col += kSide) {
    std::uint32_t a[4];
    std::uint32_t b[4];
    load_matrices(a_row + col, a);
    load_matrices(b_row + col, b);
    Mma::multiply(a, b[0], b[1], sums[0]);
    Mma::multiply(a, b[2], b[3], sums[1]);
  }
  GRAFT_UNROLL
  for (int i = 0; i < 8; ++i) {
    const int row = first_row + lane / 4 + i % 4 / 2 * 8;
    const int key = first_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
    scores[slice][row * kScoreLine + key] = sums[i / 4][i % 4];
  }
}

// What a thread knows of its row, of which it has some of the keys.
struct RowState {
  float max;
  float sum;
};

template <class Mma, int kTile>
__device__ void softmax(const AttentionJob& job,
                        const TilePosition& at,
                        std::int64_t begin,
                        Memory<kTile>& memory,
                        RowState& state) {
  constexpr int kCount = kKeysPerThread<kTile>;
  const auto row = static_cast<int>(threadIdx.x) / kThreadsPerRow<kTile>;
  const auto first_key = static_cast<int>(threadIdx.x) % kThreadsPerRow<kTile> * kCount;
  const std::int64_t own = at.first_position + quotient(at.first_flat + row, at.group);
  float weights[kCount];
  float max = state.max;
  GRAFT_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t position = begin + first_key + i;
    weights[i] = memory.scores[0][row * kScoreLine + first_key + i];
    GRAFT_UNROLL
    for (int slice = 1; slice < kSlices<kTile>; ++slice)
      weights[i] += memory.scores[slice][row * kScoreLine + first_key + i];
    if (position >= at.end || !sees(job, own, position)) weights[i] = kNothing;
    max = fmaxf(max, weights[i]);
  }
  GRAFT_UNROLL
  for (int step = 1; step < kThreadsPerRow<kTile>; step *= 2)
    max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, step));
  const float base = max == kNothing ? 0.0F : max;
  const float correction = exp2f(state.max - base);
  state.max = max;
  state.sum *= correction;
  GRAFT_UNROLL
  for (float& weight : weights) {
    weight = exp2f(weight - base);
    state.sum += weight;
  }
  if (first_key == 0) memory.correction[row] = correction;
  std::uint16_t* to = memory.weights + row * kWeightLine + first_key;
  if constexpr (kCount == 8) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(Mma::pack(weights[0], weights[1]), Mma::pack(weights[2], weights[3]),
                   Mma::pack(weights[4], weights[5]), Mma::pack(weights[6], weights[7]));
  } else {
    static_assert(kCount == 2);
    *reinterpret_cast<std::uint32_t*>(to) = Mma::pack(weights[0], weights[1]);
  }
}

// A warp has kWarpCols columns of the values for all rows of the tile.
template <int kTile>
struct WarpValues {
  static constexpr int kPieces = kTile / kSide;
  float sums[kPieces][kColPieces][4];
};

template <int kTile>
__device__ void correct(const float* correction, WarpValues<kTile>& values) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int m = 0; m < WarpValues<kTile>::kPieces; ++m) {
    const float first = correction[m * kSide + lane / 4];
    const float second = correction[m * kSide + lane / 4 + 8];
    GRAFT_UNROLL
    for (auto& piece : values.sums[m]) {
      piece[0] *= first;
      piece[1] *= first;
      piece[2] *= second;
      piece[3] *= second;
    }
  }
}

template <class Mma, int kTile>
__device__ void add_values(const std::uint16_t* weights,
                           const std::uint16_t* keys,
                           WarpValues<kTile>& values) {
  constexpr int kPieces = WarpValues<kTile>::kPieces;
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto first_col = static_cast<int>(threadIdx.x) / kWarpSize * kWarpCols;
  const std::uint16_t* a_row =
      weights + (lane / 8 % 2 * 8 + lane % 8) * kWeightLine + lane / 16 * 8;
  const std::uint16_t* b_row =
      keys + (lane / 8 % 2 * 8 + lane % 8) * kLine + first_col + lane / 16 * 8;
  GRAFT_UNROLL
  for (int k = 0; k < kKeys; k += kSide) {
    std::uint32_t a[kPieces][4];
    GRAFT_UNROLL
    for (int m = 0; m < kPieces; ++m)
      load_matrices(a_row + m * kSide * kWeightLine + k, a[m]);
    GRAFT_UNROLL
    for (int n = 0; n < kColPieces; n += 2) {
      std::uint32_t b[4];
      load_transposed(b_row + k * kLine + 8 * n, b);
      GRAFT_UNROLL
      for (int m = 0; m < kPieces; ++m) {
        Mma::multiply(a[m], b[0], b[1], values.sums[m][n]);
        Mma::multiply(a[m], b[2], b[3], values.sums[m][n + 1]);
      }
    }
  }
}

template <int kTile>
__device__ void write_tile(const AttentionJob& job,
                           const TilePosition& at,
                           const float2* max_sum,
                           const WarpValues<kTile>& values) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto first_col = static_cast<int>(threadIdx.x) / kWarpSize * kWarpCols;
  GRAFT_UNROLL
  for (int i = 0; i < 2 * WarpValues<kTile>::kPieces; ++i) {
    const int row = i / 2 * kSide + lane / 4 + i % 2 * 8;
    if (at.first_flat + row >= at.end_flat) continue;
    const bool leads = first_col == 0 && lane % 4 == 0;
    const RowTarget target = row_target(job, at, at.first_flat + row, max_sum[row], leads);
    GRAFT_UNROLL
    for (int n = 0; n < kColPieces; ++n) {
      const int col = first_col + 8 * n + lane % 4 * 2;
      if (col >= job.shape.value_dim) continue;
      target.to[col] = values.sums[i / 2][n][i % 2 * 2] * target.factor;
      target.to[col + 1] = values.sums[i / 2][n][i % 2 * 2 + 1] * target.factor;
    }
  }
}

template <class Mma, int kTile>
__global__ void __launch_bounds__(kThreads, 1) attention_latent_kernel(AttentionJob job) {
#if GRAFT_HAS_MMA
  const TilePosition at = tile_position(job, kTile, kKeys);
  if (at.end <= at.begin) return;
  Memory<kTile>& memory = *dynamic_shared<Memory<kTile>>();
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const auto first_col = static_cast<int>(threadIdx.x) / kWarpSize * kWarpCols;
  const bool has_cols = first_col < job.shape.value_dim;
  load_queries<Mma, kTile>(job, at, memory.queries);
  find_slots(job, at, at.begin, memory.slots[0]);
  __syncthreads();
  start_copies(job, memory.slots[0], memory.keys[0]);
  find_slots(job, at, at.begin + kKeys, memory.slots[1]);
  RowState state = {kNothing, 0.0F};
  WarpValues<kTile> values;
  GRAFT_UNROLL
  for (int i = 0; i < kTile / kSide * kColPieces * 4; ++i)
    values.sums[i / 4 / kColPieces][i / 4 % kColPieces][i % 4] = 0.0F;
  int stage = 0;
  for (std::int64_t begin = at.begin; begin < at.end; begin += kKeys) {
    __syncthreads();  // the other stage's keys have been used up, and the next slots are known
    const std::uint16_t* keys = memory.keys[stage];
    start_copies(job, memory.slots[1 - stage], memory.keys[1 - stage]);
    find_slots(job, at, begin + 2 * kKeys, memory.slots[stage]);
    wait_for_copies<1>();
    __syncthreads();
    score<Mma, kTile>(key_dim, memory.queries, keys, memory.scores);
    __syncthreads();
    softmax<Mma>(job, at, begin, memory, state);
    __syncthreads();
    if (has_cols) {
      correct(memory.correction, values);
      add_values<Mma>(memory.weights, keys, values);
    }
    stage = 1 - stage;
  }
  wait_for_copies<0>();
  GRAFT_UNROLL
  for (int step = 1; step < kThreadsPerRow<kTile>; step *= 2)
    state.sum += __shfl_xor_sync(kAllLanes, state.sum, step);
  if (threadIdx.x % kThreadsPerRow<kTile> == 0) {
    memory.max_sum[threadIdx.x / kThreadsPerRow<kTile>] = make_float2(state.max, state.sum);
  }
  __syncthreads();
  if (has_cols) write_tile(job, at, memory.max_sum, values);
#else
  __trap();
#endif
}

template <class Mma>
void start(const AttentionJob& job, bool many, dim3 grid, Stream stream) {
  if (many) {
    launch_with_shared("attention_latent", attention_latent_kernel<Mma, kManyRows>,
                       {grid, kThreads, sizeof(Memory<kManyRows>)}, stream, job);
  } else {
    launch_with_shared("attention_latent", attention_latent_kernel<Mma, kFewRows>,
                       {grid, kThreads, sizeof(Memory<kFewRows>)}, stream, job);
  }
}

}  // namespace

std::int64_t latent_tile_rows(bool many) {
  return many ? kManyRows : kFewRows;
}

bool can_run_latent(const AttentionShape& shape, DType cache) {
  const bool is_latent =
      shape.num_kv_heads == 1 && shape.value_offset == 0 && shape.value_dim <= shape.key_dim;
  return shape.arithmetic == Arithmetic::F16 && (cache == DType::F16 || cache == DType::BF16) &&
         is_latent && shape.key_dim <= kMaxKeyDim && shape.key_dim % kSide == 0 &&
         shape.value_dim <= kMaxValueDim && shape.value_dim % kSide == 0 &&
         sizeof(Memory<kManyRows>) <= max_shared_bytes() &&
         is_compiled_for(80, attention_latent_kernel<MmaF16, kManyRows>);
}

void launch_latent(const AttentionJob& job, DType cache, bool many, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? start<MmaF16> : start<MmaBF16>;
  run(job, many, grid, stream);
}

}  // namespace graft::kernels::cuda
