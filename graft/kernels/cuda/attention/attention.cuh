// Shared by the attention kernels: mapping of a block to its query tile and keys, and storing of
// its result.

#pragma once

#include <algorithm>
#include <cmath>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/cache/cache_types.cuh"

namespace graft::kernels::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kNegInf = -INFINITY;

// Partial softmax states of the KV splits. Scores are in units of log2: weights are 2^(score -
// max).
struct SplitStates {
  float2* max_sum = nullptr;  // [splits, rows, heads] (max, sum); null: the context is not split
  float* values = nullptr;    // [splits, rows, heads, value_dim], not divided by the sum
};

inline constexpr std::int64_t kMaxSplits = 64;

// Positions per KV split of a sequence.
__host__ __device__ inline std::int64_t split_len(const SplitRule& rule, std::int64_t context) {
  if (context <= rule.max_unsplit) return rule.max_unsplit;
  std::int64_t len = rule.min_len;
  while (len * kMaxSplits < context)
    len *= 2;
  return len;
}

// 16-bit keys and values of all slots, for attention_prefill.cu. Strides and steps are in values.
struct KeySource {
  const std::uint16_t* keys;    // the first own_dim columns of the keys
  const std::uint16_t* values;  // rows as far apart as those of the keys
  std::int64_t stride;          // from slot to slot
  std::int64_t key_step;        // from KV head to KV head
  std::int64_t value_step;
  int own_dim;
  const std::uint16_t* shared;  // the other columns of the keys, the same for all KV heads
  std::int64_t shared_stride;
};

struct AttentionJob {
  AttentionShape shape;
  AttentionBatch batch;
  const void* cache;
  std::int64_t cache_row;  // values per cache row
  bool vectors;            // the cache is aligned for loads of four values
  SplitRule splits;
  ConstRows queries;
  Rows out;
  SplitStates partials;
};

// Rows of a quantized KV cache: the columns of a KV head.
struct QuantizedSource {
  const void* cache;
  std::int64_t cols;  // of a row
  std::int64_t key_col;
  std::int64_t value_col;
};

__device__ inline QuantizedSource quantized_source(const AttentionJob& job, std::int64_t kv_head) {
  return {.cache = job.cache,
          .cols = job.cache_row,
          .key_col = kv_head * job.shape.key_dim,
          .value_col = job.shape.value_offset + kv_head * job.shape.value_dim};
}

// Columns per cache row of attention over a KV cache.
inline std::int64_t cache_cols(const AttentionShape& shape) {
  return std::max(shape.num_kv_heads * shape.key_dim,
                  shape.value_offset + shape.num_kv_heads * shape.value_dim);
}

// Whether load_halves() can read the rows: 8 codes are aligned to 8 bytes without scales, to 4
// with.
inline bool can_load_halves(const AttentionShape& shape, DType cache) {
  if (!is_quantized_cache(cache)) return false;
  const std::int64_t cols = cache_cols(shape);
  return cols % (cache == DType::F8_E4M3 ? 8 : 2 * kScaleCols) == 0;
}

// The query rows and the keys of one block. The rows of a sequence and KV head are numbered flat =
// token * group_size + head in group.
struct TilePosition {
  std::int64_t sequence;
  std::int64_t kv_head;
  std::int64_t split;
  std::int64_t group_size;  // query heads per KV head
  std::int64_t first_flat;  // the tile's flat rows [first_flat, end_flat)
  std::int64_t end_flat;
  std::int64_t first_position;  // position of the sequence's first token of the pass
  std::int64_t kv_begin;        // positions [kv_begin, kv_end); empty: the block has no work
  std::int64_t kv_end;
  std::int64_t first_slot;  // of the sequence, when slots are packed (AttentionBatch)
};

// Row of the queries and the output.
__device__ inline std::int64_t query_row(const AttentionJob& job,
                                         std::int64_t sequence,
                                         std::int64_t token) {
  return job.batch.first_rows[sequence] - job.batch.base_row + token;
}

// First position that a query at `position` attends to.
__device__ inline std::int64_t window_begin(const AttentionShape& shape, std::int64_t position) {
  const std::int64_t first = shape.window == 0 ? 0 : position + 1 - shape.window;
  const std::int64_t chunk = shape.chunk == 0 ? 0 : position - position % shape.chunk;
  return first < chunk ? chunk : first;
}

// First slot of a sequence whose slots are packed.
__device__ inline std::int64_t packed_slot(const AttentionBatch& batch, std::int64_t sequence) {
  std::int64_t slot = 0;
  for (std::int64_t s = 0; s < sequence; ++s)
    slot += batch.context_lens[s];
  return slot;
}

// Division of values below 2^32: a 64-bit division is several times slower, and a block with few
// keys does little else before its first load.
__device__ inline std::int64_t div_u32(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
}

// Grid: (tiles of all sequences, KV heads, KV splits). The kernel processes `chunk` keys at a time.
__device__ inline TilePosition tile_position(const AttentionJob& job,
                                             std::int64_t tile_rows,
                                             std::int64_t chunk) {
  TilePosition at;
  at.group_size = div_u32(job.shape.num_heads, job.shape.num_kv_heads);
  const std::int64_t tiles =
      div_u32(job.batch.max_tokens * at.group_size + tile_rows - 1, tile_rows);
  at.sequence = div_u32(blockIdx.x, tiles);
  at.kv_head = blockIdx.y;
  at.split = blockIdx.z;
  const std::int64_t num_tokens = job.batch.num_tokens[at.sequence];
  // Late positions take longest, so their tiles start first.
  at.first_flat = (tiles - 1 - (blockIdx.x - at.sequence * tiles)) * tile_rows;
  at.end_flat = num_tokens * at.group_size;
  if (at.end_flat > at.first_flat + tile_rows) at.end_flat = at.first_flat + tile_rows;
  at.first_position = job.batch.context_lens[at.sequence] - num_tokens;
  at.kv_begin = at.kv_end = at.first_slot = 0;
  if (at.end_flat <= at.first_flat) return at;
  if (job.batch.block_tables == nullptr) at.first_slot = packed_slot(job.batch, at.sequence);
  const std::int64_t visible =
      window_begin(job.shape, at.first_position + div_u32(at.first_flat, at.group_size));
  const std::int64_t len = split_len(job.splits, job.batch.context_lens[at.sequence]);
  at.kv_begin = at.split * len;
  at.kv_end = at.first_position + div_u32(at.end_flat - 1, at.group_size) + 1;
  if (at.kv_end > at.kv_begin + len) at.kv_end = at.kv_begin + len;
  // Chunks start at the same positions in every tile, so that the bits do not depend on the tile.
  if (visible > at.kv_begin) at.kv_begin += (visible - at.kv_begin) / chunk * chunk;
  return at;
}

// Cache row that holds a position.
__device__ inline std::int64_t cache_slot(const AttentionJob& job,
                                          const TilePosition& at,
                                          std::int64_t position) {
  if (job.batch.block_tables == nullptr) return at.first_slot + position;
  const std::int64_t tokens = job.batch.block_tokens;
  const std::int32_t* table = job.batch.block_tables + at.sequence * job.batch.table_stride;
  const std::int64_t block = div_u32(position, tokens);
  return table[block] * tokens + position - block * tokens;
}

// Whether the query at position query_pos attends to `position`.
__device__ inline bool is_visible(const AttentionJob& job,
                                  std::int64_t query_pos,
                                  std::int64_t position) {
  return position <= query_pos && position >= window_begin(job.shape, query_pos);
}

// The sum of a head's softmax weights with its attention sink. max_sum: over all visible keys
__device__ inline float sum_with_sink(const AttentionShape& shape,
                                      std::int64_t head,
                                      float2 max_sum) {
  if (shape.sinks == nullptr) return max_sum.y;
  return max_sum.y + exp2f(shape.sinks[head] * kLog2E - max_sum.x);
}

// Where the values of a row are stored and their factor: the output with 1 / sum, or the partial
// state when the context is split. writes_state: this thread stores the row's max and sum.
struct RowTarget {
  float* to;
  float factor;
};

__device__ inline RowTarget row_target(const AttentionJob& job,
                                       const TilePosition& at,
                                       std::int64_t flat,
                                       float2 max_sum,
                                       bool writes_state) {
  const std::int64_t token = div_u32(flat, at.group_size);
  const std::int64_t row = query_row(job, at.sequence, token);
  const std::int64_t head = at.kv_head * at.group_size + flat - token * at.group_size;
  const std::int64_t value_dim = job.shape.value_dim;
  if (job.partials.max_sum == nullptr) {
    return {job.out.data + row * job.out.stride + head * value_dim,
            1.0F / sum_with_sink(job.shape, head, max_sum)};
  }
  const std::int64_t state_idx = (at.split * job.batch.num_rows + row) * job.shape.num_heads + head;
  if (writes_state) job.partials.max_sum[state_idx] = max_sum;
  return {job.partials.values + state_idx * value_dim, 1.0F};
}

// attention_simt.cu: f32 arithmetic, every shape.
std::int64_t simt_tile_rows(const AttentionShape& shape, bool large_tile);
bool simt_tile_fits(const AttentionShape& shape, bool large_tile);
void launch_attention_simt(
    const AttentionJob& job, DType cache, bool large_tile, dim3 grid, Stream stream);

// attention_mma.cu: tensor cores, operands in the cache dtype, head dims up to 128.
std::int64_t mma_tile_rows(bool large_tile);
bool can_run_mma(const AttentionShape& shape, DType cache);
void launch_attention_mma(
    const AttentionJob& job, DType cache, bool large_tile, dim3 grid, Stream stream);

// attention_prefill.cu: tensor cores, tiles of 128 query rows.
std::int64_t prefill_tile_rows();
// 16-bit keys of up to 128 columns, or of up to 192 with values of up to 128.
bool can_run_prefill(const AttentionShape& shape, DType cache);
void launch_attention_prefill(
    const AttentionJob& job, const KeySource& source, DType cache, dim3 grid, Stream stream);

// attention_prefill_wgmma.cu: the same with wgmma, for what can_run_prefill().
bool can_run_prefill_wgmma();
void launch_attention_prefill_wgmma(
    const AttentionJob& job, const KeySource& source, DType cache, dim3 grid, Stream stream);

// attention_decode.cu: tensor cores, tiles of 8 query rows, short KV splits.
std::int64_t decode_tile_rows();
bool can_run_decode(const AttentionShape& shape, DType cache);
void launch_attention_decode(const AttentionJob& job, DType cache, dim3 grid, Stream stream);

// attention_mla.cu: tensor cores, absorbed latent attention.
std::int64_t mla_tile_rows(bool large_tile);
bool can_run_mla(const AttentionShape& shape, DType cache);
void launch_attention_mla(
    const AttentionJob& job, DType cache, bool large_tile, dim3 grid, Stream stream);

}  // namespace graft::kernels::cuda
