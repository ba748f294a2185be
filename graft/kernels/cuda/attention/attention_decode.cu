// Attention for decode on tensor cores: few query rows (a token's head group) and short KV splits,
// for every cache dtype but F32 and head dims up to 256. Reading the KV cache takes the time, so
// every warp has its own ring of keys and values in shared memory and never waits for another warp;
// the warps are merged only at the end.
//
// Block: 4 warps, one tile of 8 query rows of one KV head and KV split. Adjacent groups of 16 keys
// belong to different warps, so that few keys keep many warps busy. S^T[16 keys, 8 rows] = K Q^T
// and O^T[16 dims, 8 rows] = V^T P^T are m16n8k16 products: keys and values are the A operand, the
// queries and weights the B operand (see mma.cuh).
//
//    dynamic shared memory: the rings of the 4 warps (decode_rings.cuh); in their place for the
//    merge
//      values    [4 warps][8 rows][128 + 4] f32
//      max_sum   [4 warps][8 rows] (max, sum)

#include <algorithm>

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/decode_rings.cuh"

// Code below sm_80 has no mma instructions and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = kDecodeWarps * kWarpSize;
constexpr int kQueryRows = 8;  // per tile, the n of m16n8k16
constexpr int kChunkKeys = kDecodeWarps * kGroupKeys;
constexpr int kMaxHeadDim = 256;
constexpr int kWarps = kDecodeWarps;

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

  // 16 keys from position `first` on, with their values: group i of the ring. All lanes must call
  // it.
  template <class Ring>
  __device__ void add_keys(std::int64_t first, const Ring& ring, int i) {
    float scores[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    score(ring.keys(i), scores);
    mask_scores(first, scores);
    add_softmax(scores);
    add_values(ring.values(i), scores);
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
template <class Cache, int kHeadDim>
__global__ void __launch_bounds__(kThreads, DecodeRing<Cache, kHeadDim>::kBlocksPerSm)
    attention_decode_kernel(AttentionJob job) {
  begin_kernel();
#if GRAFT_HAS_MMA
  auto* memory = dynamic_shared<unsigned char>();
  const TilePosition at = tile_position(job, kQueryRows, kChunkKeys);
  if (at.kv_end <= at.kv_begin) return;
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  const auto num_groups = static_cast<int>((at.kv_end - at.kv_begin + kGroupKeys - 1) / kGroupKeys);
  const int num_warps = num_groups < kWarps ? num_groups : kWarps;
  using Ring = DecodeRing<Cache, kHeadDim>;
  Ring ring(job, at, shared_address(memory) + warp * Ring::kBytes);
  GRAFT_UNROLL
  for (int i = 0; i < Ring::kStages - 1; ++i)
    ring.copy_next();
  WarpTile<MmaOf<Cache>, kHeadDim> tile;
  tile.init(job, at);
  for (int i = 0; i * kWarps + warp < num_groups; ++i) {
    ring.copy_next();
    cp_async_wait<Ring::kStages - 1>();
    __syncwarp();  // the copies of all lanes
    tile.add_keys(at.kv_begin + (i * kWarps + warp) * kGroupKeys, ring, i);
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

using Launch = void (*)(const AttentionJob& job, dim3 grid, Stream stream);

template <class Cache, int kHeadDim>
void launch_kernel(const AttentionJob& job, dim3 grid, Stream stream) {
  constexpr std::size_t kBytes = std::size_t{kWarps} * DecodeRing<Cache, kHeadDim>::kBytes;
  static_assert(sizeof(WarpPartials<kHeadDim>) <= kBytes);
  launch_with_shared("attention_decode", attention_decode_kernel<Cache, kHeadDim>,
                     {.grid = grid, .block = kThreads, .shared_bytes = kBytes}, stream, job);
}

template <class Cache>
void launch_for_dims(const AttentionJob& job, dim3 grid, Stream stream) {
  const std::int64_t dim = std::max(job.shape.key_dim, job.shape.value_dim);
  const auto run = dim <= 64    ? launch_kernel<Cache, 64>
                   : dim <= 128 ? launch_kernel<Cache, 128>
                                : launch_kernel<Cache, 256>;
  run(job, grid, stream);
}

template <class Cache>
struct Launcher {
  static constexpr Launch kLaunch = launch_for_dims<Cache>;
};
template <>
struct Launcher<CacheF32> {
  static constexpr Launch kLaunch = nullptr;
};

constexpr auto kLaunches = cache_table<Launch, Launcher>();

// The largest of the rings.
constexpr int kMaxRingBytes =
    std::max({DecodeRing<CacheF16, 64>::kBytes, DecodeRing<CacheF16, 128>::kBytes,
              DecodeRing<CacheF16, 256>::kBytes, DecodeRing<CacheQ8_0, 64>::kBytes,
              DecodeRing<CacheQ8_0, 128>::kBytes, DecodeRing<CacheQ8_0, 256>::kBytes});

// Codes are copied 16 bytes at a time, scales 4.
bool can_copy_rows(const AttentionShape& shape, DType cache) {
  const std::int64_t copy = cache == DType::F8_E4M3 ? 16 : is_quantized_cache(cache) ? 64 : 8;
  const auto fits = [&](std::int64_t cols) { return cols % copy == 0; };
  return fits(shape.key_dim) && fits(shape.value_dim) && fits(shape.value_offset) &&
         bytes_of(cache, cache_cols(shape)) % 16 == 0;
}

}  // namespace

std::int64_t decode_tile_rows() {
  return kQueryRows;
}

bool can_run_decode(const AttentionShape& shape, DType cache) {
  return shape.arithmetic == Arithmetic::F16 &&
         kLaunches[static_cast<std::size_t>(cache)] != nullptr &&
         std::max(shape.key_dim, shape.value_dim) <= kMaxHeadDim && can_copy_rows(shape, cache) &&
         max_shared_bytes() >= static_cast<std::size_t>(kWarps * kMaxRingBytes) &&
         is_compiled_for(80, attention_decode_kernel<CacheF16, 128>);
}

void launch_attention_decode(const AttentionJob& job, DType cache, dim3 grid, Stream stream) {
  kLaunches[static_cast<std::size_t>(cache)](job, grid, stream);
}

}  // namespace graft::kernels::cuda
