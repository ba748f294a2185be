// Attention for decode on tensor cores: few query rows (a token's head group) and short KV splits,
// for F16 and BF16 caches and head dims up to 256. Reading the KV cache takes the time, so every
// warp has its own ring of keys and values in shared memory and never waits for another warp; the
// warps are merged only at the end.
//
// Block: 4 warps, one tile of 8 query rows of one KV head and KV split. Adjacent groups of 16 keys
// belong to different warps, so that few keys keep many warps busy. S^T[16 keys, 8 rows] = K Q^T
// and O^T[16 dims, 8 rows] = V^T P^T are m16n8k16 products: keys and values are the A operand, the
// queries and weights the B operand (see mma.cuh).
//
//    SharedMemory<128>, 98,304 bytes
//      ring      [4 warps][3 stages]: keys [16][128], values [16][128] 16-bit, permuted
//      (vectors.cuh)
//    in its place for the merge
//      values    [4 warps][8 rows][128 + 4] f32
//      max_sum   [4 warps][8 rows] (max, sum)

#include <algorithm>

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/mma.cuh"
#include "graft/kernels/cuda/attention/vectors.cuh"

// Code below sm_80 has no mma instructions and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kQueryRows = 8;   // per tile, the n of m16n8k16
constexpr int kGroupKeys = 16;  // the m of m16n8k16
constexpr int kChunkKeys = kWarps * kGroupKeys;
constexpr int kMaxHeadDim = 256;

template <int kHeadDim>
constexpr int kStages = kHeadDim == 256   ? 2
                        : kHeadDim == 128 ? 3
                                          : 4;
template <int kHeadDim>
constexpr int kPartBytes = kGroupKeys* kHeadDim * 2;  // keys or values of a stage
template <int kHeadDim>
constexpr int kRingBytes = kStages<kHeadDim> * 2 * kPartBytes<kHeadDim>;  // of a warp

// Partial softmax states of the warps, each over different keys.
template <int kHeadDim>
struct WarpPartials {
  static constexpr int kStride = kHeadDim + 4;
  float values[kWarps][kQueryRows][kStride];
  float2 max_sum[kWarps][kQueryRows];
};

// The low (high) 16 bits of two words.
__device__ std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}

__device__ std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

// Transposes an 8 x 8 matrix of 16-bit values; lane 4 g + t holds (row g, columns 2 t, 2 t + 1).
__device__ std::uint32_t transpose_8x8(std::uint32_t word) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const int from = lane % 4 * 8 + lane / 8;
  const std::uint32_t first = __shfl_sync(kAllLanes, word, from);
  const std::uint32_t second = __shfl_sync(kAllLanes, word, from + 4);
  return lane / 4 % 2 == 0 ? low_halves(first, second) : high_halves(first, second);
}

// Maximum (sum) over the lanes with the same lane % 4, which hold the same query rows.
__device__ float max_over_keys(float value) {
  GRAFT_UNROLL
  for (int step = 4; step < kWarpSize; step *= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

__device__ float sum_over_keys(float value) {
  GRAFT_UNROLL
  for (int step = 4; step < kWarpSize; step *= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// The groups of keys of a warp on their way to shared memory: group i of the warp starts at
// position kv_begin + (i * kWarps + warp) * kGroupKeys and is in stage i % kStages.
template <int kHeadDim>
class KeyRing {
 public:
  __device__ KeyRing(const AttentionJob& job, const TilePosition& at, std::uint32_t memory)
      : job_(job), at_(at), memory_(memory), slot_(slot_of(0)) {}

  // Starts the copies of the warp's next group.
  __device__ void copy_next() {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const std::uint32_t keys = stage(next_);
    const std::uint32_t values = keys + kPartBytes<kHeadDim>;
    constexpr int kVectors = kHeadDim / kVector;  // per row
    static_assert(kVectors == 8 || kVectors == 16 || kVectors == 32);
    const int vector = lane % kVectors;
    const bool has_key = vector * kVector < job_.shape.key_dim;
    const bool has_value = vector * kVector < job_.shape.value_dim;
    const std::int64_t key_col = at_.kv_head * job_.shape.key_dim + vector * kVector;
    const std::int64_t value_col =
        job_.shape.value_offset + at_.kv_head * job_.shape.value_dim + vector * kVector;
    const auto* cache = static_cast<const std::uint16_t*>(job_.cache);
    GRAFT_UNROLL
    for (int i = 0; i < kGroupKeys * kVectors / kWarpSize; ++i) {
      const int key = i * (kWarpSize / kVectors) + lane / kVectors;
      const int slot = __shfl_sync(kAllLanes, slot_, key);
      const std::uint16_t* row = cache + std::int64_t{slot < 0 ? 0 : slot} * job_.cache_row;
      cp_async_16_or_zero(vector_address<kHeadDim>(keys, key, vector), row + key_col,
                          slot >= 0 && has_key);
      cp_async_16_or_zero(vector_address<kHeadDim>(values, key, vector), row + value_col,
                          slot >= 0 && has_value);
    }
    cp_async_commit();
    slot_ = slot_of(++next_);
  }

  // Address of the keys of the warp's group i, after wait(); the values follow them.
  __device__ std::uint32_t stage(int i) const {
    return memory_ + static_cast<std::uint32_t>(i % kStages<kHeadDim> * 2 * kPartBytes<kHeadDim>);
  }

 private:
  // Each of 16 lanes looks up one cache slot of group i, a group ahead of its use. Negative: none
  __device__ int slot_of(int i) const {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
    const std::int64_t position =
        at_.kv_begin + (i * kWarps + warp) * kGroupKeys + lane % kGroupKeys;
    return position < at_.kv_end ? static_cast<int>(cache_slot(job_, at_, position)) : -1;
  }

  const AttentionJob& job_;
  const TilePosition& at_;
  std::uint32_t memory_;
  int next_ = 0;
  int slot_;
};

// With g = lane / 4 and t = lane % 4 a lane holds
//
//    queries   row g, dims 16 j + 2 t, + 1, + 8, + 9
//    scores    keys g and g + 8, rows 2 t and 2 t + 1
//    values    rows 2 t and 2 t + 1, dims 16 j + g and 16 j + g + 8
template <class Mma, int kHeadDim>
struct WarpTile {
  static constexpr int kDimTiles = kHeadDim / 16;
  std::uint32_t queries[kDimTiles][2];
  float max[2];
  float sum[2];  // of the lane's own keys until finish()
  float values[kDimTiles][4];
  std::int64_t visible_begin[2];
  std::int64_t visible_end[2];

  __device__ void init(const AttentionJob& job, const TilePosition& at) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    load_query(job, at, at.first_flat + lane / 4);
    GRAFT_UNROLL
    for (int c = 0; c < 2; ++c) {
      max[c] = kNegInf;
      sum[c] = 0.0F;
      const std::int64_t flat = at.first_flat + lane % 4 * 2 + c;
      const std::int64_t query_pos = at.first_position + div_u32(flat, at.group_size);
      visible_begin[c] = window_begin(job.shape, query_pos);
      visible_end[c] = query_pos + 1 < at.kv_end ? query_pos + 1 : at.kv_end;
    }
    GRAFT_UNROLL
    for (auto& fragment : values)
      fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0F;
  }

  // 16 keys from position `first` on, with their values, in shared memory. All lanes must call it.
  __device__ void add_keys(std::int64_t first, std::uint32_t keys) {
    float scores[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    score(keys, scores);
    mask_scores(first, scores);
    add_softmax(scores);
    add_values(keys + kPartBytes<kHeadDim>, scores);
  }

  __device__ void finish() {
    GRAFT_UNROLL
    for (float& s : sum)
      s = sum_over_keys(s);
  }

 private:
  __device__ void load_query(const AttentionJob& job, const TilePosition& at, std::int64_t flat) {
    const auto t = static_cast<int>(threadIdx.x % 4);
    const bool exists = flat < at.end_flat;
    const std::int64_t token = div_u32(flat, at.group_size);
    const std::int64_t head = at.kv_head * at.group_size + flat - token * at.group_size;
    const std::int64_t row = query_row(job, at.sequence, token);
    const float* from = job.queries.data + row * job.queries.stride + head * job.shape.key_dim;
    const float scale = job.shape.scale * kLog2E;
    const bool vectors = reinterpret_cast<std::uintptr_t>(from) % 8 == 0;
    GRAFT_UNROLL
    for (int i = 0; i < 2 * kDimTiles; ++i) {
      const int col = 8 * i + 2 * t;
      float2 two = make_float2(0.0F, 0.0F);
      if (exists && col < job.shape.key_dim) {
        two = vectors ? *reinterpret_cast<const float2*>(from + col)
                      : make_float2(from[col], from[col + 1]);
      }
      queries[i / 2][i % 2] = Mma::pack(two.x * scale, two.y * scale);
    }
  }

  __device__ void score(std::uint32_t keys, float (&scores)[4]) const {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const std::uint32_t row = vector_address<kHeadDim>(keys, lane % 16, lane / 16);
    GRAFT_UNROLL
    for (int j = 0; j < kDimTiles; ++j) {
      std::uint32_t a[4];
      ldmatrix(advance(row, 2 * j), a);
      Mma::mma(a, queries[j][0], queries[j][1], scores);
    }
  }

  __device__ void mask_scores(std::int64_t first, float (&scores)[4]) const {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::int64_t position = first + lane / 4 + i / 2 * 8;
      if (position < visible_begin[i % 2] || position >= visible_end[i % 2]) scores[i] = kNegInf;
    }
  }

  // Online softmax: turns scores into weights and rescales the state to the new maximum.
  __device__ void add_softmax(float (&scores)[4]) {
    float corrections[2];
    GRAFT_UNROLL
    for (int c = 0; c < 2; ++c) {
      const float new_max = max_over_keys(fmaxf(max[c], fmaxf(scores[c], scores[2 + c])));
      const float base = new_max == kNegInf ? 0.0F : new_max;
      corrections[c] = exp2f(max[c] - base);
      max[c] = new_max;
      scores[c] = exp2f(scores[c] - base);
      scores[2 + c] = exp2f(scores[2 + c] - base);
      sum[c] = sum[c] * corrections[c] + scores[c] + scores[2 + c];
    }
    // A factor of 1 changes no bits.
    if (!__any_sync(kAllLanes, corrections[0] != 1.0F || corrections[1] != 1.0F)) return;
    GRAFT_UNROLL
    for (auto& fragment : values) {
      fragment[0] *= corrections[0];
      fragment[1] *= corrections[1];
      fragment[2] *= corrections[0];
      fragment[3] *= corrections[1];
    }
  }

  __device__ void add_values(std::uint32_t keys, const float (&weights)[4]) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const std::uint32_t b0 = transpose_8x8(Mma::pack(weights[0], weights[1]));
    const std::uint32_t b1 = transpose_8x8(Mma::pack(weights[2], weights[3]));
    // Matrices: keys 0..7 of dims 0..7 and 8..15, keys 8..15 of the same.
    const std::uint32_t row =
        vector_address<kHeadDim>(keys, lane % 8 + lane / 16 * 8, lane / 8 % 2);
    GRAFT_UNROLL
    for (int j = 0; j < kDimTiles; ++j) {
      std::uint32_t a[4];
      ldmatrix_transposed(advance(row, 2 * j), a);
      Mma::mma(a, b0, b1, values[j]);
    }
  }
};

template <int kHeadDim, class Tile>
__device__ void store_partials(const Tile& tile, WarpPartials<kHeadDim>& partials) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  GRAFT_UNROLL
  for (int c = 0; c < 2; ++c) {
    const int row = lane % 4 * 2 + c;
    if (lane / 4 == 0) partials.max_sum[warp][row] = make_float2(tile.max[c], tile.sum[c]);
    float* to = partials.values[warp][row] + lane / 4;
    GRAFT_UNROLL
    for (int j = 0; j < kHeadDim / 16; ++j) {
      to[16 * j] = tile.values[j][c];
      to[16 * j + 8] = tile.values[j][2 + c];
    }
  }
}

// A warp merges rows over the warps that had keys, in ascending order, and stores them.
template <int kHeadDim>
__device__ void merge_warps(const AttentionJob& job,
                            const TilePosition& at,
                            int num_warps,
                            const WarpPartials<kHeadDim>& partials) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  for (auto row = static_cast<int>(threadIdx.x / kWarpSize); row < kQueryRows; row += kWarps) {
    if (at.first_flat + row >= at.end_flat) return;
    float max = kNegInf;
    for (int w = 0; w < num_warps; ++w)
      max = fmaxf(max, partials.max_sum[w][row].x);
    const float base = max == kNegInf ? 0.0F : max;
    float sum = 0.0F;
    float factors[kWarps];
    GRAFT_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      const float2 state = w < num_warps ? partials.max_sum[w][row] : make_float2(kNegInf, 0.0F);
      factors[w] = exp2f(state.x - base);
      sum += state.y * factors[w];
    }
    const RowTarget target =
        row_target(job, at, at.first_flat + row, make_float2(max, sum), lane == 0);
    for (int col = lane; col < job.shape.value_dim; col += kWarpSize) {
      float total = 0.0F;
      GRAFT_UNROLL
      for (int w = 0; w < kWarps; ++w)
        total += w < num_warps ? partials.values[w][row][col] * factors[w] : 0.0F;
      target.to[col] = total * target.factor;
    }
  }
}

// Grid: see tile_position().
template <class Mma, int kHeadDim>
__global__ void __launch_bounds__(kThreads) attention_decode_kernel(AttentionJob job) {
  begin_kernel();
#if GRAFT_HAS_MMA
  auto* memory = dynamic_shared<unsigned char>();
  const TilePosition at = tile_position(job, kQueryRows, kChunkKeys);
  if (at.kv_end <= at.kv_begin) return;
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  const auto num_groups = static_cast<int>((at.kv_end - at.kv_begin + kGroupKeys - 1) / kGroupKeys);
  const int num_warps = num_groups < kWarps ? num_groups : kWarps;
  KeyRing<kHeadDim> ring(job, at, shared_address(memory) + warp * kRingBytes<kHeadDim>);
  GRAFT_UNROLL
  for (int i = 0; i < kStages<kHeadDim> - 1; ++i)
    ring.copy_next();
  WarpTile<Mma, kHeadDim> tile;
  tile.init(job, at);
  for (int i = 0; i * kWarps + warp < num_groups; ++i) {
    ring.copy_next();
    cp_async_wait<kStages<kHeadDim> - 1>();
    __syncwarp();  // the copies of all lanes
    tile.add_keys(at.kv_begin + (i * kWarps + warp) * kGroupKeys, ring.stage(i));
    __syncwarp();  // the stage is free
  }
  cp_async_wait<0>();
  tile.finish();
  __syncthreads();
  auto& partials = *reinterpret_cast<WarpPartials<kHeadDim>*>(memory);
  if (warp < num_warps) store_partials<kHeadDim>(tile, partials);
  __syncthreads();
  merge_warps<kHeadDim>(job, at, num_warps, partials);
#else
  __trap();
#endif
}

template <class Mma, int kHeadDim>
void launch_kernel(const AttentionJob& job, dim3 grid, Stream stream) {
  constexpr std::size_t kBytes = std::size_t{kWarps} * kRingBytes<kHeadDim>;
  static_assert(sizeof(WarpPartials<kHeadDim>) <= kBytes);
  launch_with_shared("attention_decode", attention_decode_kernel<Mma, kHeadDim>,
                     {.grid = grid, .block = kThreads, .shared_bytes = kBytes}, stream, job);
}

template <class Mma>
void launch_for_dims(const AttentionJob& job, dim3 grid, Stream stream) {
  const std::int64_t dim = std::max(job.shape.key_dim, job.shape.value_dim);
  const auto run = dim <= 64    ? launch_kernel<Mma, 64>
                   : dim <= 128 ? launch_kernel<Mma, 128>
                                : launch_kernel<Mma, 256>;
  run(job, grid, stream);
}

}  // namespace

std::int64_t decode_tile_rows() {
  return kQueryRows;
}

bool can_run_decode(const AttentionShape& shape, DType cache) {
  const auto fits = [](std::int64_t dim) { return dim % 8 == 0 && dim <= kMaxHeadDim; };
  const std::int64_t dim = std::max(shape.key_dim, shape.value_dim);
  const int bytes = kWarps * (dim <= 64    ? kRingBytes<64>
                              : dim <= 128 ? kRingBytes<128>
                                           : kRingBytes<256>);
  return shape.arithmetic == Arithmetic::F16 && (cache == DType::F16 || cache == DType::BF16) &&
         fits(shape.key_dim) && fits(shape.value_dim) && shape.value_offset % 8 == 0 &&
         max_shared_bytes() >= static_cast<std::size_t>(bytes) &&
         is_compiled_for(80, attention_decode_kernel<MmaF16, 128>);
}

void launch_attention_decode(const AttentionJob& job, DType cache, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? launch_for_dims<MmaF16> : launch_for_dims<MmaBF16>;
  run(job, grid, stream);
}

}  // namespace graft::kernels::cuda
