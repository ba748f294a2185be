// What the kernels of attention have in common: where a block of threads is, and what it leaves.

#pragma once

#include "graft/kernels/cuda/attention.h"
#include "graft/kernels/cuda/cache_types.cuh"

namespace graft::cuda {

inline constexpr int kChunk = 32;  // keys at a time: one per lane

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

// Grid: tiles of all sequences, key-value heads, parts. end <= begin: nothing to do.
__device__ inline TilePosition tile_position(const AttentionJob& job, std::int64_t tile_rows) {
  TilePosition at;
  at.group = job.shape.num_heads / job.shape.num_kv_heads;
  const std::int64_t tiles = (job.batch.max_tokens * at.group + tile_rows - 1) / tile_rows;
  at.sequence = blockIdx.x / tiles;
  at.kv_head = blockIdx.y;
  at.part = blockIdx.z;
  const std::int64_t num_tokens = job.batch.num_tokens[at.sequence];
  at.first_flat = blockIdx.x % tiles * tile_rows;
  at.end_flat = num_tokens * at.group;
  if (at.end_flat > at.first_flat + tile_rows) at.end_flat = at.first_flat + tile_rows;
  at.first_position = job.batch.context_lens[at.sequence] - num_tokens;
  at.begin = at.end = 0;
  if (at.end_flat <= at.first_flat) return at;
  // Chunks begin at multiples of their length whatever the tile, for the same bits in every tile.
  const std::int64_t seen =
      first_seen(job.shape.window, at.first_position + at.first_flat / at.group);
  at.begin = seen / kChunk * kChunk;
  at.end = at.first_position + (at.end_flat - 1) / at.group + 1;
  const std::int64_t part_begin = at.part * job.part_len;
  if (at.begin < part_begin) at.begin = part_begin;
  if (at.end > part_begin + job.part_len) at.end = part_begin + job.part_len;
  return at;
}

// Row of the cache that holds a position.
__device__ inline std::int64_t cache_slot(const AttentionJob& job,
                                          std::int64_t sequence,
                                          std::int64_t position) {
  const std::int64_t tokens = job.batch.block_tokens;
  const std::int32_t* table = job.batch.block_tables + sequence * job.batch.table_stride;
  return table[position / tokens] * tokens + position % tokens;
}

}  // namespace graft::cuda
