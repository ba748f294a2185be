#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/linear/mma.cuh"

// Code for GPUs without these instructions uses none of the functions below.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kKeys = 64;      // in shared memory at a time
constexpr int kWarpRows = 16;  // of queries
constexpr int kVector = 8;     // values of 16 bits that are loaded at once
constexpr int kLargestDim = 128;

// Keys and values in shared memory; rows are padded so that eight of them meet no bank twice.
template <int kDim>
struct Tiles {
  static constexpr int kLine = kDim + kVector;
  std::uint16_t keys[kKeys * kLine];
  std::uint16_t values[kKeys * kLine];
};

// Two stages: the keys and values after the present ones are on their way.
template <int kDim>
struct Stages {
  Tiles<kDim> tiles[2];
  std::int64_t slots[2][kKeys];
};

// For the keys from `begin` on; -1 past the end.
__device__ void find_slots(const AttentionJob& job,
                           const TilePosition& at,
                           std::int64_t begin,
                           std::int64_t* slots) {
  if (threadIdx.x >= kKeys) return;
  const std::int64_t position = begin + threadIdx.x;
  slots[threadIdx.x] = position < at.end ? cache_slot(job, at.sequence, position) : -1;
}

// Starts to bring columns [first_col, first_col + num_cols) of the rows at `slots`; the others are
// zero.
template <int kDim>
__device__ void copy_rows(const AttentionJob& job,
                          const std::int64_t* slots,
                          std::int64_t first_col,
                          std::int64_t num_cols,
                          std::uint16_t* to) {
  constexpr int kPerRow = kDim / kVector;
  const auto* data = static_cast<const std::uint16_t*>(job.cache) + first_col;
  GRAFT_UNROLL_4
  for (int i = 0; i < kKeys * kPerRow / kThreads; ++i) {
    const int item = i * kThreads + static_cast<int>(threadIdx.x);
    const int key = item / kPerRow;
    const int col = item % kPerRow * kVector;
    std::uint16_t* place = to + key * Tiles<kDim>::kLine + col;
    if (slots[key] >= 0 && col < num_cols) {
      copy_16_bytes(place, data + slots[key] * job.cache_row + col);
    } else {
      *reinterpret_cast<uint4*>(place) = make_uint4(0, 0, 0, 0);
    }
  }
}

template <int kDim>
__device__ void start_copies(const AttentionJob& job,
                             const TilePosition& at,
                             int stage,
                             Stages<kDim>& stages) {
  const AttentionShape& shape = job.shape;
  Tiles<kDim>& tiles = stages.tiles[stage];
  copy_rows<kDim>(job, stages.slots[stage], at.kv_head * shape.key_dim, shape.key_dim, tiles.keys);
  copy_rows<kDim>(job, stages.slots[stage], shape.value_offset + at.kv_head * shape.value_dim,
                  shape.value_dim, tiles.values);
  end_copies();
}

// What a warp has: 16 rows of queries, and what it knows of them. A lane has parts of the rows
// lane / 4 and lane / 4 + 8; `sum` is that of its own columns until the end.
template <class Mma, int kDim, int kWarpKeys>
struct WarpRows {
  std::uint32_t queries[kDim / 16][4];
  float max[2];
  float sum[2];
  float values[kDim / 8][4];

  __device__ void start(const AttentionJob& job, const TilePosition& at, std::int64_t first_flat) {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const float scale = job.shape.scale * kLog2E;
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      max[half] = kNothing;
      sum[half] = 0.0F;
      const std::int64_t flat = first_flat + lane / 4 + 8 * half;
      const bool exists = flat < at.end_flat;
      const std::int64_t row = job.batch.first_rows[at.sequence] + flat / at.group;
      const std::int64_t head = at.kv_head * at.group + flat % at.group;
      const float* from = job.queries.data + row * job.queries.stride + head * job.shape.key_dim;
      GRAFT_UNROLL
      for (int i = 0; i < kDim / 8; ++i) {
        const int col = 8 * i + lane % 4 * 2;
        const bool inside = exists && col < job.shape.key_dim;
        queries[i / 2][i % 2 * 2 + half] =
            inside ? Mma::pack(from[col] * scale, from[col + 1] * scale) : 0U;
      }
    }
    GRAFT_UNROLL
    for (auto& piece : values)
      piece[0] = piece[1] = piece[2] = piece[3] = 0.0F;
  }

  // scores[j]: 16 rows by the keys 8 j … 8 j + 7 from `keys` on.
  __device__ void score(const std::uint16_t* keys, float (&scores)[kWarpKeys / 8][4]) const {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const std::uint16_t* row =
        keys + (lane / 16 * 8 + lane % 8) * Tiles<kDim>::kLine + lane / 8 % 2 * 8;
    GRAFT_UNROLL
    for (int j = 0; j < kWarpKeys / 8; j += 2) {
      GRAFT_UNROLL
      for (int i = 0; i < 4; ++i)
        scores[j][i] = scores[j + 1][i] = 0.0F;
      GRAFT_UNROLL
      for (int k = 0; k < kDim / 16; ++k) {
        std::uint32_t b[4];
        load_matrices(row + 8 * j * Tiles<kDim>::kLine + 16 * k, b);
        Mma::multiply(queries[k], b[0], b[1], scores[j]);
        Mma::multiply(queries[k], b[2], b[3], scores[j + 1]);
      }
    }
  }

  // Scores become weights; what was summed up under a smaller maximum is made smaller.
  __device__ void add_softmax(float (&scores)[kWarpKeys / 8][4]) {
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = max[half];
      GRAFT_UNROLL
      for (auto& piece : scores)
        largest = fmaxf(largest, fmaxf(piece[2 * half], piece[2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      const float base = largest == kNothing ? 0.0F : largest;
      const float correction = exp2f(max[half] - base);
      max[half] = largest;
      sum[half] *= correction;
      GRAFT_UNROLL
      for (auto& piece : scores) {
        GRAFT_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          piece[i] = exp2f(piece[i] - base);
          sum[half] += piece[i];
        }
      }
      GRAFT_UNROLL
      for (auto& piece : values) {
        piece[2 * half] *= correction;
        piece[2 * half + 1] *= correction;
      }
    }
  }

  __device__ void add_values(const float (&weights)[kWarpKeys / 8][4], const std::uint16_t* from) {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const std::uint16_t* row =
        from + (lane / 8 % 2 * 8 + lane % 8) * Tiles<kDim>::kLine + lane / 16 * 8;
    GRAFT_UNROLL
    for (int k = 0; k < kWarpKeys / 16; ++k) {
      const auto& first = weights[2 * k];
      const auto& second = weights[2 * k + 1];
      const std::uint32_t a[4] = {Mma::pack(first[0], first[1]), Mma::pack(first[2], first[3]),
                                  Mma::pack(second[0], second[1]), Mma::pack(second[2], second[3])};
      GRAFT_UNROLL
      for (int n = 0; n < kDim / 8; n += 2) {
        std::uint32_t b[4];
        load_transposed(row + 16 * k * Tiles<kDim>::kLine + 8 * n, b);
        Mma::multiply(a, b[0], b[1], values[n]);
        Mma::multiply(a, b[2], b[3], values[n + 1]);
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

// Takes away the scores of keys that a row does not see. first: position of the first key.
template <int kPieces>
__device__ void hide_unseen(const AttentionJob& job,
                            const TilePosition& at,
                            std::int64_t first_flat,
                            std::int64_t first,
                            float (&scores)[kPieces][4]) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t own = at.first_position + (first_flat + lane / 4 + 8 * half) / at.group;
    const std::int64_t begin = first_seen(job.shape.window, own);
    const std::int64_t end = own + 1 < at.end ? own + 1 : at.end;
    GRAFT_UNROLL
    for (int j = 0; j < kPieces; ++j) {
      GRAFT_UNROLL
      for (int i = 0; i < 2; ++i) {
        const std::int64_t position = first + 8 * j + lane % 4 * 2 + i;
        if (position < begin || position >= end) scores[j][2 * half + i] = kNothing;
      }
    }
  }
}

// Whether every row of the tile sees all keys from `begin` on that are in shared memory.
__device__ bool all_seen(const AttentionJob& job, const TilePosition& at, std::int64_t begin) {
  const std::int64_t first_own = at.first_position + at.first_flat / at.group;
  const std::int64_t last_own = at.first_position + (at.end_flat - 1) / at.group;
  return begin + kKeys <= at.end && begin + kKeys - 1 <= first_own &&
         begin >= first_seen(job.shape.window, last_own);
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
    for (const auto& piece : rows.values) {
      if (col < job.shape.value_dim) {
        target.to[col] = piece[2 * half] * target.factor;
        target.to[col + 1] = piece[2 * half + 1] * target.factor;
      }
      col += 8;
    }
  }
}

// Where the warps share the rows, each having seen other keys: what they know, side by side.
template <int kDim>
struct SharedRows {
  float values[kWarps][kWarpRows][kDim];
  float2 max_sum[kWarps][kWarpRows];
};

template <int kDim, class Rows>
__device__ void put_rows(const Rows& rows, SharedRows<kDim>& shared) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  GRAFT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    if (lane % 4 == 0) shared.max_sum[warp][row] = make_float2(rows.max[half], rows.sum[half]);
    float* to = shared.values[warp][row] + lane % 4 * 2;
    GRAFT_UNROLL
    for (int n = 0; n < kDim / 8; ++n) {
      to[8 * n] = rows.values[n][2 * half];
      to[8 * n + 1] = rows.values[n][2 * half + 1];
    }
  }
}

// Joins the warps in ascending order, and writes.
template <int kDim>
__device__ void join_warps(const AttentionJob& job,
                           const TilePosition& at,
                           const SharedRows<kDim>& shared) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int row = static_cast<int>(threadIdx.x) / kWarpSize; row < kWarpRows; row += kWarps) {
    if (at.first_flat + row >= at.end_flat) return;
    float max = kNothing;
    GRAFT_UNROLL
    for (int w = 0; w < kWarps; ++w)
      max = fmaxf(max, shared.max_sum[w][row].x);
    const float base = max == kNothing ? 0.0F : max;
    float factors[kWarps];
    float sum = 0.0F;
    GRAFT_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      factors[w] = exp2f(shared.max_sum[w][row].x - base);
      sum += shared.max_sum[w][row].y * factors[w];
    }
    const RowTarget target =
        row_target(job, at, at.first_flat + row, make_float2(max, sum), lane == 0);
    for (int col = lane; col < job.shape.value_dim; col += kWarpSize) {
      float value = 0.0F;
      GRAFT_UNROLL
      for (int w = 0; w < kWarps; ++w)
        value += shared.values[w][row][col] * factors[w];
      target.to[col] = value * target.factor;
    }
  }
}

// Many rows: each of four warps has 16 of the tile's 64. Few: all have the same 16 and a quarter of
// the keys each.
template <class Mma, int kDim, bool kMany>
__global__ void __launch_bounds__(kThreads) attention_tensor_kernel(AttentionJob job) {
#if GRAFT_HAS_MMA
  constexpr int kWarpKeys = kMany ? kKeys : kKeys / kWarps;
  auto& stages = *dynamic_shared<Stages<kDim>>();
  const TilePosition at = tile_position(job, kMany ? kWarps * kWarpRows : kWarpRows, kKeys);
  if (at.end <= at.begin) return;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t first_flat = at.first_flat + (kMany ? warp * kWarpRows : 0);
  const int first_key = kMany ? 0 : warp * kWarpKeys;
  find_slots(job, at, at.begin, stages.slots[0]);
  __syncthreads();
  start_copies<kDim>(job, at, 0, stages);
  find_slots(job, at, at.begin + kKeys, stages.slots[1]);
  WarpRows<Mma, kDim, kWarpKeys> rows;
  rows.start(job, at, first_flat);
  int stage = 0;
  for (std::int64_t begin = at.begin; begin < at.end; begin += kKeys) {
    __syncthreads();  // the other stage has been used up, and the slots for it are known
    start_copies<kDim>(job, at, 1 - stage, stages);
    find_slots(job, at, begin + 2 * kKeys, stages.slots[stage]);
    wait_for_copies<1>();
    __syncthreads();
    const Tiles<kDim>& tiles = stages.tiles[stage];
    float scores[kWarpKeys / 8][4];
    rows.score(tiles.keys + first_key * Tiles<kDim>::kLine, scores);
    if (!all_seen(job, at, begin)) hide_unseen(job, at, first_flat, begin + first_key, scores);
    rows.add_softmax(scores);
    rows.add_values(scores, tiles.values + first_key * Tiles<kDim>::kLine);
    stage = 1 - stage;
  }
  wait_for_copies<0>();
  rows.finish();
  if constexpr (kMany) {
    write_rows(job, at, first_flat, rows);
  } else {
    auto& shared = *dynamic_shared<SharedRows<kDim>>();
    static_assert(sizeof(shared) <= sizeof(stages));
    __syncthreads();  // keys and values have been used up
    put_rows<kDim>(rows, shared);
    __syncthreads();
    join_warps<kDim>(job, at, shared);
  }
#else
  __trap();
#endif
}

template <class Mma, int kDim>
void start(const AttentionJob& job, bool many, dim3 grid, Stream stream) {
  const auto kernel =
      many ? attention_tensor_kernel<Mma, kDim, true> : attention_tensor_kernel<Mma, kDim, false>;
  launch_with_shared("attention_tensor", kernel, {grid, kThreads, sizeof(Stages<kDim>)}, stream,
                     job);
}

template <class Mma>
void start(const AttentionJob& job, bool many, dim3 grid, Stream stream) {
  if (job.shape.key_dim <= 64 && job.shape.value_dim <= 64) {
    start<Mma, 64>(job, many, grid, stream);
  } else {
    start<Mma, kLargestDim>(job, many, grid, stream);
  }
}

}  // namespace

std::int64_t tensor_tile_rows(bool many) {
  return many ? kWarps * kWarpRows : kWarpRows;
}

bool can_run_on_tensor_cores(const AttentionShape& shape, DType cache) {
  const auto fits = [](std::int64_t dim) { return dim % kVector == 0 && dim <= kLargestDim; };
  return shape.arithmetic == Arithmetic::F16 && (cache == DType::F16 || cache == DType::BF16) &&
         fits(shape.key_dim) && fits(shape.value_dim) && shape.value_offset % kVector == 0 &&
         sizeof(Stages<kLargestDim>) <= max_shared_bytes() &&
         is_compiled_for(80, attention_tensor_kernel<MmaF16, kLargestDim, true>);
}

void launch_on_tensor_cores(
    const AttentionJob& job, DType cache, bool many, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? start<MmaF16> : start<MmaBF16>;
  run(job, many, grid, stream);
}

}  // namespace graft::kernels::cuda
