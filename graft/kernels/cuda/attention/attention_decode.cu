// Attention for decode on tensor cores: few query rows (a token's head group) and short KV splits,
// for F16 and BF16 caches and head dims up to 128. The kernel is latency-bound: a warp issues all
// loads of its keys and values at once, straight into the registers of the mma fragments, and the
// warps are merged only at the end.
//
// Block: 8 warps, one tile of 8 query rows of one KV head and KV split. A chunk is 256 keys; warp w
// takes keys 16 w … 16 w + 15 and 128 + 16 w … of it, so that short contexts keep many warps busy.
// S^T[16 keys, 8 rows] = K Q^T and O^T[16 dims, 8 rows] = V^T P^T are m16n8k16 products: keys and
// values are the A operand, the queries and weights the B operand (see mma.cuh). Shared memory is
// used for the merge only:
//
//    WarpPartials<kHeadDim>
//      values    [8 warps][8 rows][kHeadDim + 4] f32
//      max_sum   [8 warps][8 rows] (max, sum)

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/mma.cuh"

// Code below sm_80 has no mma instructions and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kQueryRows = 8;    // per tile, the n of m16n8k16
constexpr int kMmaKeys = 16;     // the m of m16n8k16
constexpr int kMmasPerWarp = 2;  // groups of 16 keys per warp and chunk
// Adjacent groups of 16 keys belong to different warps, so that few keys keep many warps busy.
constexpr int kWarpStride = kWarps * kMmaKeys;
constexpr int kChunkKeys = kMmasPerWarp * kWarpStride;
constexpr int kMaxHeadDim = 128;

__device__ uint4 load_or_zero(const std::uint16_t* from, bool exists) {
  return exists ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
}

__device__ std::uint32_t word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

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
//    queries   row g, dims 32 j + 8 t … + 7
//    keys      keys g and g + 8, the same dims; the order of the terms of a dot product is free
//    values    keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9, dims 64 h + 8 g … + 7
//    scores    keys g and g + 8, rows 2 t and 2 t + 1
//    output    rows 2 t and 2 t + 1, dims 64 h + 8 g … + 7
template <class Mma, int kHeadDim>
struct WarpTile {
  std::uint32_t queries[kHeadDim / 32][4];
  float max[2];
  float sum[2];  // of the lane's own keys until finish()
  float values[kHeadDim / 16][4];
  std::int64_t visible_begin[2];
  std::int64_t visible_end[2];

  __device__ void init(const AttentionJob& job, const TilePosition& at) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    load_query(job, at, at.first_flat + lane / 4, lane % 4 * 8);
    GRAFT_UNROLL
    for (int c = 0; c < 2; ++c) {
      max[c] = kNegInf;
      sum[c] = 0.0F;
      const std::int64_t flat = at.first_flat + lane % 4 * 2 + c;
      const std::int64_t query_pos = at.first_position + div_u32(flat, at.group_size);
      visible_begin[c] = window_begin(job.shape.window, query_pos);
      visible_end[c] = query_pos + 1 < at.kv_end ? query_pos + 1 : at.kv_end;
    }
    GRAFT_UNROLL
    for (auto& fragment : values)
      fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0F;
  }

  // Processes the warp's keys of the chunk that starts at `begin`. All lanes must call it.
  __device__ void add_keys(const AttentionJob& job, const TilePosition& at, std::int64_t begin) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto first = static_cast<int>(threadIdx.x / kWarpSize) * kMmaKeys;
    // Each lane looks up one cache slot.
    static_assert(kMmasPerWarp * kMmaKeys == kWarpSize);
    const std::int64_t position = begin + first + lane / kMmaKeys * kWarpStride + lane % kMmaKeys;
    const auto slot = position < at.kv_end ? static_cast<int>(cache_slot(job, at, position)) : -1;
    uint4 k[kMmasPerWarp][2][kHeadDim / 32];
    uint4 v[kMmasPerWarp][4][kHeadDim / 64];
    GRAFT_UNROLL
    for (int r = 0; r < kMmasPerWarp; ++r)
      load_keys(job, at, slot, r, k[r]);
    GRAFT_UNROLL
    for (int r = 0; r < kMmasPerWarp; ++r)
      load_values(job, at, slot, r, v[r]);
    float scores[kMmasPerWarp][4];
    GRAFT_UNROLL
    for (int r = 0; r < kMmasPerWarp; ++r) {
      score(k[r], scores[r]);
      mask_scores(begin + first + r * kWarpStride, scores[r]);
    }
    add_softmax(scores);
    GRAFT_UNROLL
    for (int r = 0; r < kMmasPerWarp; ++r)
      add_values(v[r], scores[r]);
  }

  __device__ void finish() {
    GRAFT_UNROLL
    for (float& s : sum)
      s = sum_over_keys(s);
  }

 private:
  __device__ void load_query(const AttentionJob& job,
                             const TilePosition& at,
                             std::int64_t flat,
                             int first_col) {
    const bool exists = flat < at.end_flat;
    const std::int64_t token = div_u32(flat, at.group_size);
    const std::int64_t head = at.kv_head * at.group_size + flat - token * at.group_size;
    const std::int64_t row = query_row(job, at.sequence, token);
    const float* from = job.queries.data + row * job.queries.stride + head * job.shape.key_dim;
    const float scale = job.shape.scale * kLog2E;
    const bool vectors = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
    GRAFT_UNROLL
    for (int i = 0; i < kHeadDim / 16; ++i) {
      const int col = first_col + i / 2 * 32 + i % 2 * 4;
      float4 four = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      if (exists && col < job.shape.key_dim) {
        four = vectors ? *reinterpret_cast<const float4*>(from + col)
                       : make_float4(from[col], from[col + 1], from[col + 2], from[col + 3]);
      }
      queries[i / 2][i % 2 * 2] = Mma::pack(four.x * scale, four.y * scale);
      queries[i / 2][i % 2 * 2 + 1] = Mma::pack(four.z * scale, four.w * scale);
    }
  }

  // A cache row; row 0, which is never loaded, when the slot is negative.
  static const __device__ std::uint16_t* cache_row(const AttentionJob& job, int slot) {
    return static_cast<const std::uint16_t*>(job.cache) +
           static_cast<std::int64_t>(slot < 0 ? 0 : slot) * static_cast<int>(job.cache_row);
  }

  // `slot`: the cache slot that this lane looked up. r: which of the warp's two groups of 16 keys.
  static __device__ void load_keys(const AttentionJob& job,
                                   const TilePosition& at,
                                   int slot,
                                   int r,
                                   uint4 (&to)[2][kHeadDim / 32]) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto first_col = static_cast<int>(at.kv_head * job.shape.key_dim);
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int key_slot = __shfl_sync(kAllLanes, slot, r * kMmaKeys + lane / 4 + 8 * half);
      const std::uint16_t* row = cache_row(job, key_slot) + first_col;
      GRAFT_UNROLL
      for (int j = 0; j < kHeadDim / 32; ++j) {
        const int col = 32 * j + lane % 4 * 8;
        to[half][j] = load_or_zero(row + col, key_slot >= 0 && col < job.shape.key_dim);
      }
    }
  }

  static __device__ void load_values(const AttentionJob& job,
                                     const TilePosition& at,
                                     int slot,
                                     int r,
                                     uint4 (&to)[4][kHeadDim / 64]) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto first_col =
        static_cast<int>(job.shape.value_offset + at.kv_head * job.shape.value_dim);
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int key = lane % 4 * 2 + i % 2 + i / 2 * 8;
      const int key_slot = __shfl_sync(kAllLanes, slot, r * kMmaKeys + key);
      const std::uint16_t* row = cache_row(job, key_slot) + first_col;
      GRAFT_UNROLL
      for (int h = 0; h < kHeadDim / 64; ++h) {
        const int col = 64 * h + lane / 4 * 8;
        to[i][h] = load_or_zero(row + col, key_slot >= 0 && col < job.shape.value_dim);
      }
    }
  }

  __device__ void score(const uint4 (&k)[2][kHeadDim / 32], float (&scores)[4]) const {
    scores[0] = scores[1] = scores[2] = scores[3] = 0.0F;
    GRAFT_UNROLL
    for (int j = 0; j < kHeadDim / 32; ++j) {
      const std::uint32_t first[4] = {k[0][j].x, k[1][j].x, k[0][j].y, k[1][j].y};
      const std::uint32_t second[4] = {k[0][j].z, k[1][j].z, k[0][j].w, k[1][j].w};
      Mma::mma(first, queries[j][0], queries[j][1], scores);
      Mma::mma(second, queries[j][2], queries[j][3], scores);
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
  __device__ void add_softmax(float (&scores)[kMmasPerWarp][4]) {
    GRAFT_UNROLL
    for (int c = 0; c < 2; ++c) {
      float new_max = max[c];
      GRAFT_UNROLL
      for (auto& fragment : scores)
        new_max = fmaxf(new_max, fmaxf(fragment[c], fragment[2 + c]));
      new_max = max_over_keys(new_max);
      const float base = new_max == kNegInf ? 0.0F : new_max;
      const float correction = exp2f(max[c] - base);
      max[c] = new_max;
      sum[c] *= correction;
      GRAFT_UNROLL
      for (auto& fragment : scores) {
        fragment[c] = exp2f(fragment[c] - base);
        fragment[2 + c] = exp2f(fragment[2 + c] - base);
        sum[c] += fragment[c] + fragment[2 + c];
      }
      GRAFT_UNROLL
      for (auto& fragment : values) {
        fragment[c] *= correction;
        fragment[2 + c] *= correction;
      }
    }
  }

  __device__ void add_values(const uint4 (&v)[4][kHeadDim / 64], const float (&weights)[4]) {
    const std::uint32_t b0 = transpose_8x8(Mma::pack(weights[0], weights[1]));
    const std::uint32_t b1 = transpose_8x8(Mma::pack(weights[2], weights[3]));
    GRAFT_UNROLL
    for (int i = 0; i < kHeadDim / 16; ++i) {
      const std::uint32_t words[4] = {word_of(v[0][i / 4], i % 4), word_of(v[1][i / 4], i % 4),
                                      word_of(v[2][i / 4], i % 4), word_of(v[3][i / 4], i % 4)};
      const std::uint32_t a[4] = {low_halves(words[0], words[1]), high_halves(words[0], words[1]),
                                  low_halves(words[2], words[3]), high_halves(words[2], words[3])};
      Mma::mma(a, b0, b1, values[i]);
    }
  }
};

// Partial softmax states of the warps, each over different keys.
template <int kHeadDim>
struct WarpPartials {
  static constexpr int kStride = kHeadDim + 4;
  float values[kWarps][kQueryRows][kStride];
  float2 max_sum[kWarps][kQueryRows];
};

template <int kHeadDim, class Rows>
__device__ void store_partials(const Rows& rows, WarpPartials<kHeadDim>& partials) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  GRAFT_UNROLL
  for (int c = 0; c < 2; ++c) {
    const int row = lane % 4 * 2 + c;
    if (lane / 4 == 0) partials.max_sum[warp][row] = make_float2(rows.max[c], rows.sum[c]);
    float* to = partials.values[warp][row] + lane / 4 * 8;
    GRAFT_UNROLL
    for (int i = 0; i < kHeadDim / 16; i += 2) {
      const auto& first = rows.values[i];
      const auto& second = rows.values[i + 1];
      *reinterpret_cast<float4*>(to + i / 4 * 64 + i % 4 * 2) =
          make_float4(first[c], first[2 + c], second[c], second[2 + c]);
    }
  }
}

// Warp w merges row w over the warps that had keys, in ascending order, and stores it.
template <int kHeadDim>
__device__ void merge_warps(const AttentionJob& job,
                            const TilePosition& at,
                            int num_warps,
                            const WarpPartials<kHeadDim>& partials) {
  static_assert(kWarps == kQueryRows && kHeadDim <= 4 * kWarpSize);
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const auto row = static_cast<int>(threadIdx.x / kWarpSize);
  if (at.first_flat + row >= at.end_flat) return;
  float max = kNegInf;
  for (int w = 0; w < num_warps; ++w)
    max = fmaxf(max, partials.max_sum[w][row].x);
  const float base = max == kNegInf ? 0.0F : max;
  float sum = 0.0F;
  float4 total = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  const int col = 4 * lane;
  const bool has_cols = col < job.shape.value_dim;
  for (int w = 0; w < num_warps; ++w) {
    const float2 state = partials.max_sum[w][row];
    const float factor = exp2f(state.x - base);
    sum += state.y * factor;
    if (!has_cols) continue;
    const float4 four = *reinterpret_cast<const float4*>(partials.values[w][row] + col);
    total.x += four.x * factor;
    total.y += four.y * factor;
    total.z += four.z * factor;
    total.w += four.w * factor;
  }
  const RowTarget target =
      row_target(job, at, at.first_flat + row, make_float2(max, sum), lane == 0);
  if (!has_cols) return;
  target.to[col] = total.x * target.factor;
  target.to[col + 1] = total.y * target.factor;
  target.to[col + 2] = total.z * target.factor;
  target.to[col + 3] = total.w * target.factor;
}

// Grid: see tile_position().
template <class Mma, int kHeadDim>
__global__ void __launch_bounds__(kThreads) attention_decode_kernel(AttentionJob job) {
  begin_kernel();
#if GRAFT_HAS_MMA
  __shared__ WarpPartials<kHeadDim> partials;
  const TilePosition at = tile_position(job, kQueryRows, kChunkKeys);
  if (at.kv_end <= at.kv_begin) return;
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  const std::int64_t num_mma_tiles = (at.kv_end - at.kv_begin + kMmaKeys - 1) / kMmaKeys;
  const int num_warps = num_mma_tiles < kWarps ? static_cast<int>(num_mma_tiles) : kWarps;
  if (warp < num_warps) {
    WarpTile<Mma, kHeadDim> rows;
    rows.init(job, at);
    for (std::int64_t begin = at.kv_begin; begin + warp * kMmaKeys < at.kv_end; begin += kChunkKeys)
      rows.add_keys(job, at, begin);
    rows.finish();
    store_partials<kHeadDim>(rows, partials);
  }
  __syncthreads();
  merge_warps<kHeadDim>(job, at, num_warps, partials);
#else
  __trap();
#endif
}

template <class Mma>
void launch_kernel(const AttentionJob& job, dim3 grid, Stream stream) {
  const bool is_small = job.shape.key_dim <= 64 && job.shape.value_dim <= 64;
  launch("attention_decode",
         is_small ? attention_decode_kernel<Mma, 64> : attention_decode_kernel<Mma, kMaxHeadDim>,
         {grid, kThreads}, stream, job);
}

}  // namespace

std::int64_t decode_tile_rows() {
  return kQueryRows;
}

bool can_run_decode(const AttentionShape& shape, DType cache) {
  const auto fits = [](std::int64_t dim) { return dim % 8 == 0 && dim <= kMaxHeadDim; };
  return shape.arithmetic == Arithmetic::F16 && (cache == DType::F16 || cache == DType::BF16) &&
         fits(shape.key_dim) && fits(shape.value_dim) && shape.value_offset % 8 == 0 &&
         is_compiled_for(80, attention_decode_kernel<MmaF16, kMaxHeadDim>);
}

void launch_attention_decode(const AttentionJob& job, DType cache, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? launch_kernel<MmaF16> : launch_kernel<MmaBF16>;
  run(job, grid, stream);
}

}  // namespace graft::kernels::cuda
