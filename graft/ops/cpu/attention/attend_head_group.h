// Attention of one head group (tiles with the same tokens) on one worker: the work item of
// attend().

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/ops/cpu/attention/attend.h"

namespace graft::ops::cpu {

// The softmax state of a tile: max[rows], sum[rows], acc[rows, value_dim], each padded to 16
// floats for full vectors. state_elems() is its size in floats.
std::int64_t state_elems(const AttentionShape& shape, std::int64_t num_rows);
kernels::cpu::SoftmaxState state_at(std::int64_t num_rows, float* memory);

// The KV splits that the tokens attend to: [first, end).
std::int64_t first_split(const AttentionShape& shape, const TokenTile& tokens);
std::int64_t end_split(const TokenTile& tokens);

// Writes acc / sum to tile.out, with the sink in the sum; all splits must be merged into `state`.
void write_results(const AttentionShape& shape,
                   const HeadTile& tile,
                   kernels::cpu::SoftmaxState state);

class HeadGroupAttention {
 public:
  // Floats of memory for a group of `num_tiles` tiles of at most `num_rows` rows.
  static std::int64_t memory_elems(const AttentionShape& shape,
                                   std::int64_t num_rows,
                                   std::int64_t num_tiles,
                                   const KeyValueSource& source);

  // No tile may have more rows than the first.
  HeadGroupAttention(const AttentionShape& shape,
                     std::span<const HeadTile> tiles,
                     const KeyValueSource& source,
                     float* memory);

  // Must be called first: scales and transposes the queries.
  void prepare() const;
  // Computes one state per tile over one KV split. Positions from `end` on are not read.
  void attend_split(std::int64_t split, std::int64_t end, float* states) const;
  // Computes and merges all splits and writes the results.
  void attend_all() const;

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };
  struct TileRows;
  struct VisibleKeys;
  struct StoredRows;
  // Keys and values of a block: decoded, or (with `stored`) as stored.
  struct Block {
    KeysAndValues decoded = {};
    const StoredRows* stored = nullptr;
    std::int64_t count = 0;  // positions
  };

  float* queries(std::size_t tile) const {
    return queries_ + static_cast<std::int64_t>(tile) * query_elems_;
  }
  kernels::cpu::SoftmaxState state(std::size_t tile, float* states) const {
    return state_at(tiles_[tile].num_rows(),
                    states + static_cast<std::int64_t>(tile) * state_elems_);
  }
  void clear(std::size_t tile, float* states) const;
  void add_block(Positions positions, float* states) const;
  bool reads_stored() const;
  kernels::cpu::StoredBlock stored_block(const StoredRows& rows,
                                         std::int64_t first_col,
                                         Range keys) const;
  void add_block_to(const TileRows& group, std::int64_t begin, const Block& block) const;
  void score(const TileRows& group, const Block& block, std::int64_t count) const;
  void score_stored(const TileRows& group, const StoredRows& rows, std::int64_t count) const;
  VisibleKeys visible_keys(const TileRows& group, std::int64_t begin, std::int64_t count) const;
  void add_values(const TileRows& group, Range rows, Range keys, const Block& block) const;

  const AttentionShape& shape_;
  std::span<const HeadTile> tiles_;
  const KeyValueSource& source_;
  std::int64_t query_elems_;
  std::int64_t state_elems_;
  float* queries_;     // per tile and row group [key_dim, width]
  float* scores_;      // [kAttentionBlock, kAttentionRows]
  float* correction_;  // [kAttentionRows]
  float* total_;       // one state per tile
  float* split_;       // one state per tile
  float* keys_;        // stored keys, decoded and transposed: [key_dim, kAttentionBlock]
  float* by_row_;      // their scores: [kMaxStoredRows, kAttentionBlock]
  float* memory_;      // of the source
};

}  // namespace graft::ops::cpu
