// What the kernels of attention have in common: where a block of threads is, and what it leaves.

#pragma once

#include <cmath>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/attention/cache_types.cuh"

namespace graft::kernels::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kNothing = -INFINITY;

// max and sum of the softmax so far (powers of two) and the weighted values, by part, row and head.
struct AttentionStates {
  float2* max_sum = nullptr;  // [parts, rows, heads]; null: the context is not split
  float* values = nullptr;    // [parts, rows, heads, value_dim]
};

struct AttentionJob {
  AttentionShape shape;
  AttentionBatch batch;
  const void* cache;
  std::int64_t cache_row;  // values
  bool vectors;            // four values of the cache can be loaded at once
  std::int64_t part_len;
  ConstRows queries;
  Rows out;
  AttentionStates states;
};

// The rows of a tile and the keys its block looks at.
struct TilePosition {
  std::int64_t sequence;
  std::int64_t kv_head;
  std::int64_t part;
  std::int64_t group;       // heads per key-value head
  std::int64_t first_flat;  // of the tile's rows: token * group + head
  std::int64_t end_flat;
  std::int64_t first_position;  // of the sequence's first token of the pass
  std::int64_t begin;           // keys [begin, end)
  std::int64_t end;
};

__device__ inline std::int64_t first_seen(std::int64_t window, std::int64_t position) {
  const std::int64_t first = window == 0 ? 0 : position + 1 - window;
  return first < 0 ? 0 : first;
}

// Quotients of numbers that fit 32 bits: with 64 a division takes several times as long, and a
// block for few keys does little else before its first load.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
}

// Grid: tiles of all sequences, key-value heads, parts. Keys are looked at `chunk` at a time. end
// <= begin: nothing to do.
__device__ inline TilePosition tile_position(const AttentionJob& job,
                                             std::int64_t tile_rows,
                                             std::int64_t chunk) {
  TilePosition at;
  at.group = quotient(job.shape.num_heads, job.shape.num_kv_heads);
  const std::int64_t tiles = quotient(job.batch.max_tokens * at.group + tile_rows - 1, tile_rows);
  at.sequence = quotient(blockIdx.x, tiles);
  at.kv_head = blockIdx.y;
  at.part = blockIdx.z;
  const std::int64_t num_tokens = job.batch.num_tokens[at.sequence];
  // The last first: those of late positions take longest.
  at.first_flat = (tiles - 1 - (blockIdx.x - at.sequence * tiles)) * tile_rows;
  at.end_flat = num_tokens * at.group;
  if (at.end_flat > at.first_flat + tile_rows) at.end_flat = at.first_flat + tile_rows;
  at.first_position = job.batch.context_lens[at.sequence] - num_tokens;
  at.begin = at.end = 0;
  if (at.end_flat <= at.first_flat) return at;
  const std::int64_t seen =
      first_seen(job.shape.window, at.first_position + quotient(at.first_flat, at.group));
  at.begin = at.part * job.part_len;
  at.end = at.first_position + quotient(at.end_flat - 1, at.group) + 1;
  if (at.end > at.begin + job.part_len) at.end = at.begin + job.part_len;
  // Chunks begin at the same positions whatever the tile, for the same bits in every tile.
  if (seen > at.begin) at.begin += (seen - at.begin) / chunk * chunk;
  return at;
}

// Row of the cache that holds a position.
__device__ inline std::int64_t cache_slot(const AttentionJob& job,
                                          std::int64_t sequence,
                                          std::int64_t position) {
  const std::int64_t tokens = job.batch.block_tokens;
  const std::int32_t* table = job.batch.block_tables + sequence * job.batch.table_stride;
  const std::int64_t block = quotient(position, tokens);
  return table[block] * tokens + position - block * tokens;
}

// Whether the row of a tile at `own` sees a position.
__device__ inline bool sees(const AttentionJob& job, std::int64_t own, std::int64_t position) {
  return position <= own && position >= first_seen(job.shape.window, own);
}

// Where the values of a row go and by what they are multiplied: the result, or its state where the
// context is split. `leads`: this thread writes the rest of the state.
struct RowTarget {
  float* to;
  float factor;
};

__device__ inline RowTarget row_target(const AttentionJob& job,
                                       const TilePosition& at,
                                       std::int64_t flat,
                                       float2 max_sum,
                                       bool leads) {
  const std::int64_t token = quotient(flat, at.group);
  const std::int64_t row = job.batch.first_rows[at.sequence] + token;
  const std::int64_t head = at.kv_head * at.group + flat - token * at.group;
  const std::int64_t value_dim = job.shape.value_dim;
  if (job.states.max_sum == nullptr) {
    return {job.out.data + row * job.out.stride + head * value_dim, 1.0F / max_sum.y};
  }
  const std::int64_t place = (at.part * job.batch.num_rows + row) * job.shape.num_heads + head;
  if (leads) job.states.max_sum[place] = max_sum;
  return {job.states.values + place * value_dim, 1.0F};
}

// The kernels for plain cores, in float arithmetic, for all shapes: tiles of few or many rows.
std::int64_t core_tile_rows(const AttentionShape& shape, bool many);
bool core_tile_fits(const AttentionShape& shape, bool many);
void launch_on_cores(const AttentionJob& job, DType cache, bool many, dim3 grid, Stream stream);

// The kernels for tensor cores, with operands of the cache's type: heads of up to 128 values, and
// latents.
std::int64_t tensor_tile_rows(bool many);
bool can_run_on_tensor_cores(const AttentionShape& shape, DType cache);
void launch_on_tensor_cores(
    const AttentionJob& job, DType cache, bool many, dim3 grid, Stream stream);

// Very few rows and parts of few positions.
std::int64_t few_tile_rows();
bool can_run_few(const AttentionShape& shape, DType cache);
void launch_few(const AttentionJob& job, DType cache, dim3 grid, Stream stream);

std::int64_t latent_tile_rows(bool many);
bool can_run_latent(const AttentionShape& shape, DType cache);
void launch_latent(const AttentionJob& job, DType cache, bool many, dim3 grid, Stream stream);

}  // namespace graft::kernels::cuda
