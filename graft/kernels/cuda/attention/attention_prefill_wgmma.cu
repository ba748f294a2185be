// Attention for prefill with wgmma (sm_90a): the tiles of attention_prefill.cu, 128 query rows of
// one KV head and KV split, with 128 keys at a time.
//
//    warpgroups 0, 1   64 query rows each: scores, softmax, values. The scores of a tile of keys
//                      are multiplied while the weights of the one before are multiplied with its
//                      values; one warpgroup multiplies while the other computes its softmax.
//    warpgroup 2       copies keys and values
//
//    dynamic shared memory, <192, 128>: 212,992 bytes, lines of 128 bytes with permuted vectors
//      queries   [2 warpgroups][3 blocks of 64 columns][64 rows] lines, scaled by scale * log2(e)
//      keys      [2 stages][3 blocks of 64 columns][128 keys] lines
//      values    [2 stages][2 blocks of 64 columns][128 keys] lines

#include "graft/kernels/cuda/attention/attention.cuh"
#include "graft/kernels/cuda/attention/vectors.cuh"
#include "graft/kernels/cuda/attention/wgmma_rows.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kTileRows = kGroups * kGroupRows;
constexpr int kThreads = (kGroups + 1) * kWarpgroupThreads;
constexpr int kStages = 2;
constexpr int kMaxHeadDim = 128;
constexpr int kMaxKeyDim = 192;  // with shared columns
constexpr int kAlignment = 1024;
// Together the 168 of each thread that the kernel starts with: (2 x 232 + 40) / 3.
constexpr int kSumRegisters = 232;
constexpr int kCopyRegisters = 40;
// Of the warpgroups: for the queries, and for the turns of the two.
constexpr int kQueriesBarrier = 1;
constexpr int kTurnBarrier = kQueriesBarrier + kGroups;

template <int kKeyDim_, int kValueDim_>
struct Tile {
  static constexpr int kKeyDim = kKeyDim_;
  static constexpr int kValueDim = kValueDim_;
  static constexpr int kQueryBytes = kGroupRows * kKeyDim * 2;  // of a warpgroup
  static constexpr int kKeyBytes = kTileKeys * kKeyDim * 2;
  static constexpr int kValueBytes = kTileKeys * kValueDim * 2;
  static constexpr int kKeys = kGroups * kQueryBytes;
  static constexpr int kValues = kKeys + kStages * kKeyBytes;
  static constexpr int kSharedBytes = kValues + kStages * kValueBytes + kAlignment;
};

// Full when all threads of the copying warpgroup have copied, empty when all warps have read.
struct Ring {
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  __device__ void init() {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(shared_address(&full[i]), kWarpgroupThreads);
      init_barrier(shared_address(&empty[i]), kGroups * kWarpgroupThreads / kWarpSize);
    }
  }
  __device__ void wait(int k) {
    wait_for_phase(shared_address(&full[k % kStages]), k / kStages);
    fence_shared_for_wgmma();
  }
  __device__ void release(int k) {
    if (threadIdx.x % kWarpSize == 0) arrive(shared_address(&empty[k % kStages]));
  }
  __device__ void wait_empty(int k) {
    if (k >= kStages) wait_for_phase(shared_address(&empty[k % kStages]), k / kStages - 1);
  }
  // After the copies of this thread so far.
  __device__ void arrive_when_copied(int k) {
#if GRAFT_HAS_WGMMA
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full[k % kStages]))
        : "memory");
#endif
  }
};

struct Rings {
  Ring keys;
  Ring values;
};

__device__ void sync_threads(int barrier, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ void arrive_at(int barrier, int count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Of `lines` lines per block of 64 columns.
__device__ std::uint32_t line_vector(std::uint32_t matrix, int lines, int line, int vector) {
  return matrix + static_cast<std::uint32_t>((vector / kLineVectors * lines + line) * kLineBytes +
                                             (vector ^ line) % kLineVectors * 16);
}

// A row of keys or values of this lane's columns, and the distance of slots.
struct Column {
  const std::uint16_t* from;
  std::int64_t stride;
  bool exists;
};

// Starts copies of the 32 rows of a warp; 8 lanes copy 128 bytes of a row. slot: of row `lane`,
// negative: zeros. locate(column): as below
template <int kDim, class Locate>
__device__ void copy_rows(std::uint32_t to, int slot, const Locate& locate) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize;
  constexpr int kRowsPerCopy = kWarpSize / kLineVectors;
  // Unrolled, it needs more registers than this warpgroup has.
  _Pragma("unroll 1") for (int line = 0; line < kDim / kLine; ++line) {
    const Column column = locate(line * kLine + lane % kLineVectors * kVector);
    GRAFT_UNROLL
    for (int i = 0; i < kWarpSize / kRowsPerCopy; ++i) {
      const int row = i * kRowsPerCopy + lane / kLineVectors;
      const int row_slot = __shfl_sync(kAllLanes, slot, row);
      const bool exists = column.exists && row_slot >= 0;
      cp_async_16_or_zero(line_vector(to, kTileKeys, warp * kWarpSize + row,
                                      line * kLineVectors + lane % kLineVectors),
                          column.from + (exists ? row_slot * column.stride : 0), exists);
    }
  }
}

template <class T>
__device__ void copy_tiles(const AttentionJob& job,
                           const KeySource& source,
                           const TilePosition& at,
                           const Bounds& bounds,
                           Rings& rings,
                           std::uint32_t memory) {
  const std::int32_t* table = job.batch.block_tables == nullptr
                                  ? nullptr
                                  : job.batch.block_tables + at.sequence * job.batch.table_stride;
  const auto block_tokens = static_cast<unsigned>(job.batch.block_tokens);
  const std::uint16_t* keys = source.keys + at.kv_head * source.key_step;
  const std::uint16_t* values = source.values + at.kv_head * source.value_step;
  const auto key_column = [&](int col) -> Column {
    if (col < source.own_dim) return {keys + col, source.stride, true};
    if (col < job.shape.key_dim)
      return {source.shared + (col - source.own_dim), source.shared_stride, true};
    return {keys, source.stride, false};
  };
  const auto value_column = [&](int col) -> Column {
    const bool exists = col < job.shape.value_dim;
    return {exists ? values + col : values, source.stride, exists};
  };
  const auto slot_of = [&](int tile) {
    const int position =
        bounds.kv_begin + tile * kTileKeys + static_cast<int>(threadIdx.x) % kWarpgroupThreads;
    if (position >= bounds.kv_end) return -1;
    if (table == nullptr) return static_cast<int>(at.first_slot) + position;
    const unsigned block = static_cast<unsigned>(position) / block_tokens;
    return table[block] * static_cast<int>(block_tokens) + position -
           static_cast<int>(block * block_tokens);
  };
  int slot = slot_of(0);
  for (int k = 0; k < bounds.num_tiles; ++k) {
    const int stage = k % kStages;
    rings.keys.wait_empty(k);
    copy_rows<T::kKeyDim>(memory + T::kKeys + stage * T::kKeyBytes, slot, key_column);
    rings.keys.arrive_when_copied(k);
    const int next = slot_of(k + 1);
    rings.values.wait_empty(k);
    copy_rows<T::kValueDim>(memory + T::kValues + stage * T::kValueBytes, slot, value_column);
    rings.values.arrive_when_copied(k);
    slot = next;
  }
}

// The 64 query rows of a warpgroup, times scale * log2(e); zeros past the last row and column.
template <class Mma, class T>
__device__ void load_queries(const AttentionJob& job,
                             const TilePosition& at,
                             int group,
                             std::uint32_t to) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize;
  const auto key_dim = static_cast<int>(job.shape.key_dim);
  const float scale = job.shape.scale * kLog2E;
  for (int i = 0; i < kGroupRows / 4; ++i) {
    const int row = warp * (kGroupRows / 4) + i;
    const std::int64_t flat = at.first_flat + group * kGroupRows + row;
    const bool exists = flat < at.end_flat;
    const std::int64_t token = div_u32(flat, at.group_size);
    const std::int64_t head = at.kv_head * at.group_size + flat - token * at.group_size;
    const float* from = job.queries.data + head * key_dim;
    if (exists) from += query_row(job, at.sequence, token) * job.queries.stride;
    GRAFT_UNROLL
    for (int first = 0; first < T::kKeyDim; first += 2 * kWarpSize) {
      const int col = first + 2 * lane;
      const bool inside = exists && col < key_dim;
      const std::uint32_t pair = inside ? Mma::pack(from[col] * scale, from[col + 1] * scale) : 0U;
      store_shared(line_vector(to, kGroupRows, row, col / kVector) +
                       static_cast<unsigned>(col % kVector * 2),
                   pair);
    }
  }
  fence_shared_for_wgmma();
  sync_threads(kQueriesBarrier + group, kWarpgroupThreads);
}

template <class Mma, class T>
__device__ void write_rows(const AttentionJob& job,
                           const TilePosition& at,
                           int first_flat,
                           const Rows64<Mma, T>& rows) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t flat = first_flat + 8 * half;
    if (flat >= at.end_flat) continue;
    const RowTarget target =
        row_target(job, at, flat, make_float2(rows.max[half], rows.sum[half]), lane % 4 == 0);
    GRAFT_UNROLL
    for (int j = 0; j < T::kValueDim / 8; ++j) {
      const int col = 8 * j + lane % 4 * 2;
      if (col >= job.shape.value_dim) continue;
      *reinterpret_cast<float2*>(target.to + col) =
          make_float2(rows.values[4 * j + 2 * half] * target.factor,
                      rows.values[4 * j + 2 * half + 1] * target.factor);
    }
  }
}

template <class Mma, class T>
__device__ void attend(const AttentionJob& job,
                       const TilePosition& at,
                       const Bounds& bounds,
                       Rings& rings,
                       std::uint32_t memory) {
  const auto group = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize;
  const int group_flat = static_cast<int>(at.first_flat) + group * kGroupRows;
  const int first_flat = group_flat + 16 * warp + lane / 4;
  const int first_query = bounds.first_position + group_flat / bounds.group_size;
  const int last_query = bounds.first_position + (group_flat + kGroupRows - 1) / bounds.group_size;
  const auto full_begin = static_cast<int>(window_begin(job.shape, last_query));
  const std::uint32_t queries = memory + group * T::kQueryBytes;
  const std::uint32_t keys = memory + T::kKeys;
  const std::uint32_t from = memory + T::kValues;
  const auto mask = [&](int k, Scores& scores) {
    const int begin = bounds.kv_begin + k * kTileKeys;
    const bool sees_all = begin + kTileKeys <= bounds.kv_end &&
                          begin + kTileKeys - 1 <= first_query && begin >= full_begin;
    if (!sees_all) mask_scores(job, bounds, first_flat, begin, scores);
  };
  load_queries<Mma, T>(job, at, group, queries);
  Rows64<Mma, T> rows;
  rows.init();
  Scores scores;
  float correction[2];
  rings.keys.wait(0);
  rows.start_scores(queries, keys, scores);
  wgmma_wait<0>();
  rings.keys.release(0);
  mask(0, scores);
  rows.softmax(scores, correction);
  rows.set_weights(scores);
  if (group == 1) arrive_at(kTurnBarrier, kGroups * kWarpgroupThreads);
  for (int k = 1; k < bounds.num_tiles; ++k) {
    rings.keys.wait(k);
    sync_threads(kTurnBarrier + group, kGroups * kWarpgroupThreads);
    rows.start_scores(queries, keys + k % kStages * T::kKeyBytes, scores);
    rings.values.wait(k - 1);
    rows.start_values(from + (k - 1) % kStages * T::kValueBytes);
    arrive_at(kTurnBarrier + 1 - group, kGroups * kWarpgroupThreads);
    wgmma_wait<1>();
    rings.keys.release(k);
    mask(k, scores);
    rows.softmax(scores, correction);
    wgmma_wait<0>();
    rings.values.release(k - 1);
    rows.rescale(correction);
    rows.set_weights(scores);
  }
  if (group == 0) sync_threads(kTurnBarrier, kGroups * kWarpgroupThreads);
  const int last = bounds.num_tiles - 1;
  rings.values.wait(last);
  rows.start_values(from + last % kStages * T::kValueBytes);
  wgmma_wait<0>();
  rows.finish();
  // Computed again rather than kept in registers that the loop needs.
  write_rows(job, tile_position(job, kTileRows, kTileKeys), first_flat, rows);
}

// Grid: see tile_position().
template <class Mma, class T>
__global__ void __launch_bounds__(kThreads, 1)
    prefill_wgmma_kernel(const __grid_constant__ AttentionJob job, const KeySource source) {
#if GRAFT_HAS_WGMMA
  __shared__ Rings rings;
  begin_kernel();
  const TilePosition at = tile_position(job, kTileRows, kTileKeys);
  if (at.kv_end <= at.kv_begin) return;
  const Bounds bounds(at);
  const std::uint32_t memory =
      (shared_address(dynamic_shared<unsigned char>()) + kAlignment - 1) / kAlignment * kAlignment;
  if (threadIdx.x == 0) {
    rings.keys.init();
    rings.values.init();
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= kGroups * kWarpgroupThreads) {
    leave_registers<kCopyRegisters>();
    copy_tiles<T>(job, source, at, bounds, rings, memory);
  } else {
    take_registers<kSumRegisters>();
    attend<Mma, T>(job, at, bounds, rings, memory);
  }
#else
  begin_kernel();
#endif
}

template <class Mma, int kKeyDim, int kValueDim>
void launch_kernel(const AttentionJob& job, const KeySource& source, dim3 grid, Stream stream) {
  using T = Tile<kKeyDim, kValueDim>;
  launch_with_shared("attention_prefill_wgmma", prefill_wgmma_kernel<Mma, T>,
                     {grid, kThreads, T::kSharedBytes}, stream, job, source);
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

bool can_run_prefill_wgmma() {
  static const bool can_run =
      device_capability() == 90 &&
      is_compiled_for(90, prefill_wgmma_kernel<MmaF16, Tile<kMaxKeyDim, kMaxHeadDim>>) &&
      max_shared_bytes() >= Tile<kMaxKeyDim, kMaxHeadDim>::kSharedBytes + sizeof(Rings);
  return can_run;
}

void launch_attention_prefill_wgmma(
    const AttentionJob& job, const KeySource& source, DType cache, dim3 grid, Stream stream) {
  const auto run = cache == DType::F16 ? launch_kernel<MmaF16> : launch_kernel<MmaBF16>;
  run(job, source, grid, stream);
}

}  // namespace graft::kernels::cuda
