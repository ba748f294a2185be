// Attention of a few tiles that have the same tokens, on one worker: what attend() shares out.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/ops/cpu/attend.h"

namespace graft::ops::cpu {

// What rows know of some keys takes so many floats: room for the lanes past them, too.
std::int64_t state_elems(const AttentionShape& shape, std::int64_t num_rows);
kernels::cpu::SoftmaxRows state_at(std::int64_t num_rows, float* memory);

// The segments some tokens have to do with: [first, end).
std::int64_t first_segment(const AttentionShape& shape, const TokenTile& tokens);
std::int64_t end_segment(const TokenTile& tokens);

// The result of a tile, whose segments are joined.
void write_results(const AttentionShape& shape,
                   const HeadTile& tile,
                   kernels::cpu::SoftmaxRows state);

class BundleAttention {
 public:
  // Floats of memory for a bundle of so many tiles.
  static std::int64_t memory_elems(const AttentionShape& shape,
                                   std::int64_t num_rows,
                                   std::int64_t num_tiles,
                                   const KeyValueSource& source);

  // The first tile has the most rows.
  BundleAttention(const AttentionShape& shape,
                  std::span<const HeadTile> tiles,
                  const KeyValueSource& source,
                  float* memory);

  // First of all.
  void prepare() const;
  // What the rows know of one segment; a state per tile. `end` is where the worker's work ends.
  void attend_segment(std::int64_t segment, std::int64_t end, float* states) const;
  // All segments, joined, and the results written.
  void attend_all() const;

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };
  struct Group;
  struct Seen;

  float* queries(std::size_t tile) const {
    return queries_ + static_cast<std::int64_t>(tile) * query_elems_;
  }
  kernels::cpu::SoftmaxRows state(std::size_t tile, float* states) const {
    return state_at(tiles_[tile].num_rows(),
                    states + static_cast<std::int64_t>(tile) * state_elems_);
  }
  void clear(std::size_t tile, float* states) const;
  void add_block(Positions positions, float* states) const;
  void add_block_to(const Group& group, std::int64_t begin, const KeysAndValues& block) const;
  Seen seen_by(const Group& group, std::int64_t begin, std::int64_t count) const;
  void add_values(const Group& group, Range rows, Range keys, kernels::cpu::RowsF32 values) const;

  const AttentionShape& shape_;
  std::span<const HeadTile> tiles_;
  const KeyValueSource& source_;
  std::int64_t query_elems_;
  std::int64_t state_elems_;
  float* queries_;     // per tile and row group [key_dim, width]
  float* scores_;      // [kAttentionBlock, kAttentionRows]
  float* correction_;  // [kAttentionRows]
  float* total_;       // a state per tile
  float* segment_;     // a state per tile
  float* memory_;      // of the source
};

}  // namespace graft::ops::cpu
