// Attention of few rows, those of a single token, on tensor cores. Time is all latency here: a warp
// has all loads of its keys and values under way at once, straight into the registers that the
// products need, and warps meet only in the end.

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/linear/mma.cuh"

// Code for GPUs without these instructions uses none of the functions below.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kRows = 8;    // of queries
constexpr int kGroup = 16;  // keys of one product
constexpr int kGroups = 2;  // of a warp at a time
// Neighbouring groups belong to different warps, so that few keys keep many warps busy.
constexpr int kGroupStep = kWarps * kGroup;
constexpr int kChunk = kGroups * kGroupStep;
constexpr int kLargestDim = 128;

__device__ uint4 load_or_zero(const std::uint16_t* from, bool exists) {
  return exists ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
}

__device__ std::uint32_t word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

// The low and the high halves of two words.
__device__ std::uint32_t lows(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}

__device__ std::uint32_t highs(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

// A matrix of 8 x 8 halves, of which lane 4 g + t has (row g, columns 2 t, 2 t + 1), transposed.
__device__ std::uint32_t transpose(std::uint32_t word) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const int from = lane % 4 * 8 + lane / 8;
  const std::uint32_t first = __shfl_sync(kAllLanes, word, from);
  const std::uint32_t second = __shfl_sync(kAllLanes, word, from + 4);
  return lane / 4 % 2 == 0 ? lows(first, second) : highs(first, second);
}

// Largest or sum of the lanes that have the same rows, those with the same lane % 4.
__device__ float max_of_rows(float value) {
  GRAFT_UNROLL
  for (int step = 4; step < kWarpSize; step *= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

__device__ float sum_of_rows(float value) {
  GRAFT_UNROLL
  for (int step = 4; step < kWarpSize; step *= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// The keys are the rows of the left matrix and the queries the columns of the right one; then the
// values, transposed, with the weights. With g = lane / 4 and t = lane % 4 a lane has
//   of query g             the values 32 j + 8 t … + 7
//   of the keys g, g + 8   the same: the order of a product's terms is free
//   of the values of keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9   64 h + 8 g … + 7
//   the scores of rows 2 t, 2 t + 1 with keys g, g + 8, and of these rows the values 64 h + 8 g …
template <class Mma, int kDim>
struct WarpRows {
  std::uint32_t queries[kDim / 32][4];
  float max[2];
  float sum[2];  // of the lane's own keys until the end
  float values[kDim / 16][4];
  std::int64_t first_seen_by[2];
  std::int64_t end_seen_by[2];

  __device__ void start(const AttentionJob& job, const TilePosition& at) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    load_query(job, at, at.first_flat + lane / 4, lane % 4 * 8);
    GRAFT_UNROLL
    for (int c = 0; c < 2; ++c) {
      max[c] = kNothing;
      sum[c] = 0.0F;
      const std::int64_t flat = at.first_flat + lane % 4 * 2 + c;
      const std::int64_t own = at.first_position + quotient(flat, at.group);
      first_seen_by[c] = first_seen(job.shape.window, own);
      end_seen_by[c] = own + 1 < at.end ? own + 1 : at.end;
    }
    GRAFT_UNROLL
    for (auto& piece : values)
      piece[0] = piece[1] = piece[2] = piece[3] = 0.0F;
  }

  // `begin`: of the chunk. All lanes of a warp call.
  __device__ void add_keys(const AttentionJob& job, const TilePosition& at, std::int64_t begin) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto first = static_cast<int>(threadIdx.x / kWarpSize) * kGroup;
    // One slot for each lane to find.
    static_assert(kGroups * kGroup == kWarpSize);
    const std::int64_t position = begin + first + lane / kGroup * kGroupStep + lane % kGroup;
    const auto slot =
        position < at.end ? static_cast<int>(cache_slot(job, at.sequence, position)) : -1;
    uint4 k[kGroups][2][kDim / 32];
    uint4 v[kGroups][4][kDim / 64];
    GRAFT_UNROLL
    for (int r = 0; r < kGroups; ++r)
      load_keys(job, at, slot, r, k[r]);
    GRAFT_UNROLL
    for (int r = 0; r < kGroups; ++r)
      load_values(job, at, slot, r, v[r]);
    float scores[kGroups][4];
    GRAFT_UNROLL
    for (int r = 0; r < kGroups; ++r) {
      score(k[r], scores[r]);
      hide_unseen(begin + first + r * kGroupStep, scores[r]);
    }
    add_softmax(scores);
    GRAFT_UNROLL
    for (int r = 0; r < kGroups; ++r)
      add_values(v[r], scores[r]);
  }

  __device__ void finish() {
    GRAFT_UNROLL
    for (float& s : sum)
      s = sum_of_rows(s);
  }

 private:
  __device__ void load_query(const AttentionJob& job,
                             const TilePosition& at,
                             std::int64_t flat,
                             int first_col) {
    const bool exists = flat < at.end_flat;
    const std::int64_t token = quotient(flat, at.group);
    const std::int64_t head = at.kv_head * at.group + flat - token * at.group;
    const std::int64_t row = job.batch.first_rows[at.sequence] + token;
    const float* from = job.queries.data + row * job.queries.stride + head * job.shape.key_dim;
    const float scale = job.shape.scale * kLog2E;
    const bool vectors = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
    GRAFT_UNROLL
    for (int i = 0; i < kDim / 16; ++i) {
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

  // A row of the cache, or what can be pointed to where there is none.
  static const __device__ std::uint16_t* cache_row(const AttentionJob& job, int slot) {
    return static_cast<const std::uint16_t*>(job.cache) +
           static_cast<std::int64_t>(slot < 0 ? 0 : slot) * static_cast<int>(job.cache_row);
  }

  // `slot`: of the key that belongs to the lane's number, for those of both groups.
  static __device__ void load_keys(
      const AttentionJob& job, const TilePosition& at, int slot, int r, uint4 (&to)[2][kDim / 32]) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto first_col = static_cast<int>(at.kv_head * job.shape.key_dim);
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int its_slot = __shfl_sync(kAllLanes, slot, r * kGroup + lane / 4 + 8 * half);
      const std::uint16_t* row = cache_row(job, its_slot) + first_col;
      GRAFT_UNROLL
      for (int j = 0; j < kDim / 32; ++j) {
        const int col = 32 * j + lane % 4 * 8;
        to[half][j] = load_or_zero(row + col, its_slot >= 0 && col < job.shape.key_dim);
      }
    }
  }

  static __device__ void load_values(
      const AttentionJob& job, const TilePosition& at, int slot, int r, uint4 (&to)[4][kDim / 64]) {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const auto first_col =
        static_cast<int>(job.shape.value_offset + at.kv_head * job.shape.value_dim);
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int key = lane % 4 * 2 + i % 2 + i / 2 * 8;
      const int its_slot = __shfl_sync(kAllLanes, slot, r * kGroup + key);
      const std::uint16_t* row = cache_row(job, its_slot) + first_col;
      GRAFT_UNROLL
      for (int h = 0; h < kDim / 64; ++h) {
        const int col = 64 * h + lane / 4 * 8;
        to[i][h] = load_or_zero(row + col, its_slot >= 0 && col < job.shape.value_dim);
      }
    }
  }

  __device__ void score(const uint4 (&k)[2][kDim / 32], float (&scores)[4]) const {
    scores[0] = scores[1] = scores[2] = scores[3] = 0.0F;
    GRAFT_UNROLL
    for (int j = 0; j < kDim / 32; ++j) {
      const std::uint32_t first[4] = {k[0][j].x, k[1][j].x, k[0][j].y, k[1][j].y};
      const std::uint32_t second[4] = {k[0][j].z, k[1][j].z, k[0][j].w, k[1][j].w};
      Mma::multiply(first, queries[j][0], queries[j][1], scores);
      Mma::multiply(second, queries[j][2], queries[j][3], scores);
    }
  }

  __device__ void hide_unseen(std::int64_t first, float (&scores)[4]) const {
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::int64_t position = first + lane / 4 + i / 2 * 8;
      if (position < first_seen_by[i % 2] || position >= end_seen_by[i % 2]) scores[i] = kNothing;
    }
  }

  // Scores become weights; what was summed up under a smaller maximum is made smaller.
  __device__ void add_softmax(float (&scores)[kGroups][4]) {
    GRAFT_UNROLL
    for (int c = 0; c < 2; ++c) {
      float largest = max[c];
      GRAFT_UNROLL
      for (auto& piece : scores)
        largest = fmaxf(largest, fmaxf(piece[c], piece[2 + c]));
      largest = max_of_rows(largest);
      const float base = largest == kNothing ? 0.0F : largest;
      const float correction = exp2f(max[c] - base);
      max[c] = largest;
      sum[c] *= correction;
      GRAFT_UNROLL
      for (auto& piece : scores) {
        piece[c] = exp2f(piece[c] - base);
        piece[2 + c] = exp2f(piece[2 + c] - base);
        sum[c] += piece[c] + piece[2 + c];
      }
      GRAFT_UNROLL
      for (auto& piece : values) {
        piece[c] *= correction;
        piece[2 + c] *= correction;
      }
    }
  }

  __device__ void add_values(const uint4 (&v)[4][kDim / 64], const float (&weights)[4]) {
    const std::uint32_t b0 = transpose(Mma::pack(weights[0], weights[1]));
    const std::uint32_t b1 = transpose(Mma::pack(weights[2], weights[3]));
    GRAFT_UNROLL
    for (int i = 0; i < kDim / 16; ++i) {
      const std::uint32_t words[4] = {word_of(v[0][i / 4], i % 4), word_of(v[1][i / 4], i % 4),
                                      word_of(v[2][i / 4], i % 4), word_of(v[3][i / 4], i % 4)};
      const std::uint32_t a[4] = {lows(words[0], words[1]), highs(words[0], words[1]),
                                  lows(words[2], words[3]), highs(words[2], words[3])};
      Mma::multiply(a, b0, b1, values[i]);
    }
  }
};

// What the warps know of the rows, each having seen other keys, side by side.
template <int kDim>
struct SharedRows {
  static constexpr int kLine = kDim + 4;
  float values[kWarps][kRows][kLine];
  float2 max_sum[kWarps][kRows];
};

template <int kDim, class Rows>
__device__ void put_rows(const Rows& rows, SharedRows<kDim>& shared) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  GRAFT_UNROLL
  for (int c = 0; c < 2; ++c) {
    const int row = lane % 4 * 2 + c;
    if (lane / 4 == 0) shared.max_sum[warp][row] = make_float2(rows.max[c], rows.sum[c]);
    float* to = shared.values[warp][row] + lane / 4 * 8;
    GRAFT_UNROLL
    for (int i = 0; i < kDim / 16; i += 2) {
      const auto& first = rows.values[i];
      const auto& second = rows.values[i + 1];
      *reinterpret_cast<float4*>(to + i / 4 * 64 + i % 4 * 2) =
          make_float4(first[c], first[2 + c], second[c], second[2 + c]);
    }
  }
}

// A warp joins the warps that had keys for one row, in ascending order, and writes.
template <int kDim>
__device__ void join_warps(const AttentionJob& job,
                           const TilePosition& at,
                           int num_warps,
                           const SharedRows<kDim>& shared) {
  static_assert(kWarps == kRows && kDim <= 4 * kWarpSize);
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const auto row = static_cast<int>(threadIdx.x / kWarpSize);
  if (at.first_flat + row >= at.end_flat) return;
  float max = kNothing;
  for (int w = 0; w < num_warps; ++w)
    max = fmaxf(max, shared.max_sum[w][row].x);
  const float base = max == kNothing ? 0.0F : max;
  float sum = 0.0F;
  float4 total = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  const int col = 4 * lane;
  const bool has_cols = col < job.shape.value_dim;
  for (int w = 0; w < num_warps; ++w) {
    const float2 state = shared.max_sum[w][row];
    const float factor = exp2f(state.x - base);
    sum += state.y * factor;
    if (!has_cols) continue;
    const float4 four = *reinterpret_cast<const float4*>(shared.values[w][row] + col);
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

template <class Mma, int kDim>
__global__ void __launch_bounds__(kThreads) attention_few_kernel(AttentionJob job) {
#if GRAFT_HAS_MMA
  __shared__ SharedRows<kDim> shared;
  const TilePosition at = tile_position(job, kRows, kChunk);
  if (at.end <= at.begin) return;
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  const std::int64_t groups = (at.end - at.begin + kGroup - 1) / kGroup;
  const int num_warps = groups < kWarps ? static_cast<int>(groups) : kWarps;
  if (warp < num_warps) {
    WarpRows<Mma, kDim> rows;
    rows.start(job, at);
    for (std::int64_t begin = at.begin; begin + warp * kGroup < at.end; begin += kChunk)
      rows.add_keys(job, at, begin);
    rows.finish();
    put_rows<kDim>(rows, shared);
  }
  __syncthreads();
  join_warps<kDim>(job, at, num_warps, shared);
#else
  __trap();
#endif
}

template <class Mma>
void start(const AttentionJob& job, dim3 grid, Stream stream) {
  const bool small = job.shape.key_dim <= 64 && job.shape.value_dim <= 64;
  launch("attention_few",
         small ? attention_few_kernel<Mma, 64> : attention_few_kernel<Mma, kLargestDim>,
         {grid, kThreads}, stream, job);
}

}  // namespace

std::int64_t few_tile_rows() {
  return kRows;
}

bool can_run_few(const AttentionShape& shape, DType cache) {
  const auto fits = [](std::int64_t dim) { return dim % 8 == 0 && dim <= kLargestDim; };
  return shape.arithmetic == Arithmetic::F16 && (cache == DType::F16 || cache == DType::BF16) &&
         fits(shape.key_dim) && fits(shape.value_dim) && shape.value_offset % 8 == 0 &&
         is_compiled_for(80, attention_few_kernel<MmaF16, kLargestDim>);
}

void launch_few(const AttentionJob& job, DType cache, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? start<MmaF16> : start<MmaBF16>;
  run(job, grid, stream);
}

}  // namespace graft::kernels::cuda
