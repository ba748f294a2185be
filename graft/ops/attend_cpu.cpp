#include "graft/ops/attend_cpu.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/workers.h"

namespace graft::ops {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
// Items per worker that even out the work.
constexpr std::int64_t kItemsPerWorker = 4;
// Floats for what the segments know until they are joined: beyond that tiles are not cut.
constexpr std::int64_t kMaxStateElems = std::int64_t{1} << 24;

// Rows of a tile, at most kAttentionRows, and the lanes they take in the kernels.
struct RowGroup {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t width = 0;
};

std::int64_t lanes_of(std::int64_t num_rows) {
  if (num_rows <= 4) return 4;
  if (num_rows <= 8) return 8;
  return (num_rows + 15) / 16 * 16;
}

RowGroup row_group(std::int64_t num_rows, std::int64_t first) {
  const std::int64_t count = std::min(kAttentionRows, num_rows - first);
  return {.first = first, .count = count, .width = lanes_of(count)};
}

// Room for rows and the lanes past them; also keeps what follows on the lines of the cache.
std::int64_t padded(std::int64_t num_elems) {
  return (num_elems + 15) / 16 * 16;
}

std::int64_t state_elems(const AttentionShape& shape, std::int64_t num_rows) {
  return padded(num_rows) * 2 + padded(num_rows * shape.value_dim);
}

cpu::SoftmaxRows state_at(std::int64_t num_rows, float* memory) {
  return {.max = memory, .sum = memory + padded(num_rows), .acc = memory + 2 * padded(num_rows)};
}

// What a worker needs for a bundle of tiles; per tile where it says so.
struct Scratch {
  std::int64_t query_elems;
  std::int64_t state_elems;
  float* queries;     // per tile and row group [key_dim, width]
  float* scores;      // [kAttentionBlock, kAttentionRows]
  float* correction;  // [kAttentionRows]
  float* total;       // a state per tile
  float* segment;     // a state per tile
  float* source;

  static std::int64_t elems(const AttentionShape& shape,
                            std::int64_t num_rows,
                            std::int64_t tiles) {
    return tiles * (padded(num_rows) * shape.key_dim + 2 * ops::state_elems(shape, num_rows)) +
           (kAttentionBlock + 1) * kAttentionRows;
  }

  Scratch(const AttentionShape& shape, std::int64_t num_rows, std::int64_t tiles, float* memory)
      : query_elems(padded(num_rows) * shape.key_dim),
        state_elems(ops::state_elems(shape, num_rows)),
        queries(memory),
        scores(queries + tiles * query_elems),
        correction(scores + kAttentionBlock * kAttentionRows),
        total(correction + kAttentionRows),
        segment(total + tiles * state_elems),
        source(segment + tiles * state_elems) {}
};

std::int64_t first_seen(const AttentionShape& shape, std::int64_t position) {
  return shape.window == 0 ? 0 : std::max<std::int64_t>(0, position + 1 - shape.window);
}

// The segments some tokens have to do with: [first, end).
std::int64_t first_segment(const AttentionShape& shape, const TokenTile& tokens) {
  return first_seen(shape, tokens.first_position) / kAttentionSegment;
}
std::int64_t end_segment(const TokenTile& tokens) {
  return (tokens.first_position + tokens.num_tokens - 1) / kAttentionSegment + 1;
}

std::int64_t worker_elems(const AttentionShape& shape,
                          std::span<const HeadTile> tiles,
                          std::int64_t bundle,
                          const KeyValueSource& source) {
  std::int64_t max_rows = 0;
  for (const HeadTile& tile : tiles)
    max_rows = std::max(max_rows, tile.num_rows());
  return padded(Scratch::elems(shape, max_rows, bundle) + source.memory_elems());
}

// The result of a tile, whose segments are joined.
void write(const AttentionShape& shape, const HeadTile& tile, cpu::SoftmaxRows state) {
  for (std::int64_t row = 0; row < tile.num_rows(); ++row) {
    const float* from = state.acc + row * shape.value_dim;
    float* to =
        tile.out + row / tile.num_heads * tile.out_stride + row % tile.num_heads * shape.value_dim;
    const float factor = 1.0F / state.sum[row];
    for (std::int64_t i = 0; i < shape.value_dim; ++i)
      to[i] = from[i] * factor;
  }
}

// A row group of a tile, with its part of the scratch.
struct GroupOfTile {
  const HeadTile* tile = nullptr;
  RowGroup rows;
  const float* queries = nullptr;  // [key_dim, width]
  cpu::SoftmaxRows state;          // of the group's first row on

  std::int64_t position_of(std::int64_t row) const {
    return tile->tokens.first_position + (rows.first + row) / tile->num_heads;
  }
};

// A bundle of tiles on one worker.
class BundleAttention {
 public:
  // The first tile has the most rows.
  BundleAttention(const AttentionShape& shape,
                  std::span<const HeadTile> tiles,
                  const KeyValueSource& source,
                  float* memory)
      : shape_(shape),
        tiles_(tiles),
        source_(source),
        s_(shape, tiles[0].num_rows(), static_cast<std::int64_t>(tiles.size()), memory) {}

  void prepare() const {
    source_.prepare(tiles_[0], s_.source);
    // The scale of the scores, in powers of two, is that of the queries.
    const float scale = shape_.scale * std::numbers::log2e_v<float>;
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      const HeadTile& tile = tiles_[i];
      for (std::int64_t first = 0; first < tile.num_rows(); first += kAttentionRows) {
        const RowGroup group = row_group(tile.num_rows(), first);
        float* to = queries(i) + first * shape_.key_dim;
        if (group.count < group.width) std::fill_n(to, group.width * shape_.key_dim, 0.0F);
        std::array<const float*, kAttentionRows> rows{};
        for (std::int64_t r = 0; r < group.count; ++r) {
          rows[static_cast<std::size_t>(r)] = tile.queries +
                                              (first + r) / tile.num_heads * tile.query_stride +
                                              (first + r) % tile.num_heads * shape_.key_dim;
        }
        cpu::kernels().math.transpose({.data = rows.data(), .rows = group.count}, shape_.key_dim,
                                      scale, to, group.width);
      }
    }
  }

  // What the rows know of one segment; a state per tile. `end` is where the worker's work ends.
  void attend_segment(std::int64_t segment, std::int64_t end, float* states) const {
    const TokenTile& tokens = tiles_[0].tokens;
    for (std::size_t i = 0; i < tiles_.size(); ++i)
      clear(i, states);
    const std::int64_t segment_end = std::min((segment + 1) * kAttentionSegment, end);
    std::int64_t begin =
        std::max(segment * kAttentionSegment, first_seen(shape_, tokens.first_position));
    begin = begin / kAttentionBlock * kAttentionBlock;
    for (; begin < segment_end; begin += kAttentionBlock) {
      const std::int64_t block_end = std::min(begin + kAttentionBlock, segment_end);
      add_block(
          {.begin = begin, .end = block_end, .follow = std::min(kAttentionBlock, end - block_end)},
          states);
    }
  }

  // All segments, joined.
  void attend_all() const {
    const TokenTile& tokens = tiles_[0].tokens;
    const std::int64_t first = first_segment(shape_, tokens);
    const std::int64_t end = tokens.first_position + tokens.num_tokens;
    attend_segment(first, end, s_.total);
    for (std::int64_t i = first + 1; i < end_segment(tokens); ++i) {
      attend_segment(i, end, s_.segment);
      for (std::size_t t = 0; t < tiles_.size(); ++t) {
        cpu::kernels().math.softmax_merge(state(t, s_.total), state(t, s_.segment),
                                          tiles_[t].num_rows(), shape_.value_dim);
      }
    }
    for (std::size_t t = 0; t < tiles_.size(); ++t)
      write(shape_, tiles_[t], state(t, s_.total));
  }

 private:
  float* queries(std::size_t tile) const {
    return s_.queries + static_cast<std::int64_t>(tile) * s_.query_elems;
  }
  cpu::SoftmaxRows state(std::size_t tile, float* states) const {
    return state_at(tiles_[tile].num_rows(),
                    states + static_cast<std::int64_t>(tile) * s_.state_elems);
  }

  void clear(std::size_t tile, float* states) const {
    const cpu::SoftmaxRows rows = state(tile, states);
    const std::int64_t num_rows = tiles_[tile].num_rows();
    std::fill_n(rows.max, padded(num_rows), kNothing);
    std::fill_n(rows.sum, padded(num_rows), 0.0F);
    std::fill_n(rows.acc, num_rows * shape_.value_dim, 0.0F);
  }

  void add_block(Positions positions, float* states) const {
    KeysAndValues block;
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      const HeadTile& tile = tiles_[i];
      if (i == 0 || tile.source != tiles_[i - 1].source) {
        block = source_.load(tile, positions, s_.source);
      }
      const cpu::SoftmaxRows rows = state(i, states);
      for (std::int64_t first = 0; first < tile.num_rows(); first += kAttentionRows) {
        add_block_to({.tile = &tile,
                      .rows = row_group(tile.num_rows(), first),
                      .queries = queries(i) + first * shape_.key_dim,
                      .state = {.max = rows.max + first,
                                .sum = rows.sum + first,
                                .acc = rows.acc + first * shape_.value_dim}},
                     positions.begin, block);
      }
    }
  }

  // Which keys of a block each row sees.
  struct Seen {
    bool all = false;
    std::array<std::int32_t, kAttentionRows> first{};
    std::array<std::int32_t, kAttentionRows> end{};
  };

  Seen seen_by(const GroupOfTile& group, std::int64_t begin, std::int64_t count) const {
    Seen seen;
    const std::int64_t last = group.position_of(group.rows.count - 1);
    seen.all = count == kAttentionBlock && group.position_of(0) >= begin + count - 1 &&
               first_seen(shape_, last) <= begin;
    for (std::int64_t r = 0; r < group.rows.count && !seen.all; ++r) {
      const std::int64_t position = group.position_of(r);
      const std::int64_t first = std::max<std::int64_t>(0, first_seen(shape_, position) - begin);
      const std::int64_t end = std::min(count, position + 1 - begin);
      if (first >= end) continue;
      seen.first[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(first);
      seen.end[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(end);
    }
    return seen;
  }

  void add_block_to(const GroupOfTile& group,
                    std::int64_t begin,
                    const KeysAndValues& block) const {
    const cpu::MathTable& math = cpu::kernels().math;
    const std::int64_t count =
        std::min(block.keys.rows, group.position_of(group.rows.count - 1) + 1 - begin);
    if (count <= 0) return;  // all of it lies after the group
    math.product({.a = block.keys.data,
                  .a_row = block.keys.stride,
                  .b = group.queries,
                  .ldb = group.rows.width,
                  .c = s_.scores,
                  .ldc = group.rows.width,
                  .m = count,
                  .n = group.rows.width,
                  .k = shape_.key_dim});
    const Seen seen = seen_by(group, begin, count);
    math.softmax_block({.scores = s_.scores,
                        .count = count,
                        .width = group.rows.width,
                        .first = seen.all ? nullptr : seen.first.data(),
                        .end = seen.all ? nullptr : seen.end.data(),
                        .max = group.state.max,
                        .sum = group.state.sum,
                        .correction = s_.correction});
    if (seen.all) {
      add_values(group, {0, group.rows.count}, {0, count}, block.values);
      return;
    }
    // Rows that see the same keys together. No row is given a key it does not see: 0 times what
    // stands there might be NaN, and could turn -0 into 0.
    for (std::int64_t r = 0; r < group.rows.count;) {
      const Range keys = {seen.first[static_cast<std::size_t>(r)],
                          seen.end[static_cast<std::size_t>(r)]};
      std::int64_t end = r + 1;
      while (end < group.rows.count && seen.first[static_cast<std::size_t>(end)] == keys.begin &&
             seen.end[static_cast<std::size_t>(end)] == keys.end) {
        ++end;
      }
      add_values(group, {r, end}, keys, block.values);
      r = end;
    }
  }

  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  // acc = correction acc + weights times values, for some rows of a group and the keys they see.
  void add_values(const GroupOfTile& group, Range rows, Range keys, cpu::RowsF32 values) const {
    if (keys.begin >= keys.end) return;
    cpu::kernels().math.product({.a = s_.scores + keys.begin * group.rows.width + rows.begin,
                                 .a_row = 1,
                                 .a_col = group.rows.width,
                                 .b = values.data + keys.begin * values.stride,
                                 .ldb = values.stride,
                                 .c = group.state.acc + rows.begin * shape_.value_dim,
                                 .ldc = shape_.value_dim,
                                 .m = rows.end - rows.begin,
                                 .n = shape_.value_dim,
                                 .k = keys.end - keys.begin,
                                 .factor = s_.correction + rows.begin});
  }

  const AttentionShape& shape_;
  std::span<const HeadTile> tiles_;
  const KeyValueSource& source_;
  Scratch s_;
};

// A segment of a bundle, and where its states go.
struct SegmentItem {
  std::span<const HeadTile> tiles;
  std::int64_t segment = 0;
  float* states = nullptr;
};

// How the work is shared out.
struct Shares {
  std::int64_t bundle = 1;        // tiles that one worker takes together
  bool by_segment = false;        // else every bundle is one worker's
  std::int64_t num_segments = 0;  // of all tiles
};

Shares share_out(const AttentionShape& shape,
                 std::span<const HeadTile> tiles,
                 std::int64_t bundle,
                 const ThreadPool& pool) {
  Shares shares = {.bundle = bundle};
  for (const HeadTile& tile : tiles)
    shares.num_segments += end_segment(tile.tokens) - first_segment(shape, tile.tokens);
  const auto num_threads = static_cast<std::int64_t>(pool.num_threads());
  if (num_threads == 1) return shares;
  const std::int64_t enough = kItemsPerWorker * num_threads;
  while (shares.bundle > 1 && shares.num_segments / shares.bundle < enough)
    shares.bundle = shares.bundle % 2 == 0 ? shares.bundle / 2 : 1;
  const auto num_tiles = static_cast<std::int64_t>(tiles.size());
  shares.by_segment =
      num_tiles / shares.bundle < enough && shares.num_segments > num_tiles &&
      shares.num_segments * state_elems(shape, tiles[0].num_rows()) <= kMaxStateElems;
  return shares;
}

// Every bundle by one worker.
void attend_whole(const AttentionShape& shape,
                  std::span<const HeadTile> tiles,
                  std::int64_t bundle,
                  const KeyValueSource& source,
                  Pass& pass) {
  const std::int64_t num_items = static_cast<std::int64_t>(tiles.size()) / bundle;
  const TensorView scratch = pass.workspace.f32(
      {num_workers(pass.pool, num_items), worker_elems(shape, tiles, bundle, source)});
  for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t item) {
    // The last first: those of late positions take longest.
    const auto first = static_cast<std::size_t>((num_items - 1 - item) * bundle);
    const BundleAttention attention(shape, tiles.subspan(first, static_cast<std::size_t>(bundle)),
                                    source, scratch.f32_row(worker));
    attention.prepare();
    attention.attend_all();
  });
}

// Joins the segments of each tile in ascending order: the first becomes the total.
void join(const AttentionShape& shape, std::span<const SegmentItem> items, Pass& pass) {
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0 || items[i].tiles.data() != items[i - 1].tiles.data()) firsts.push_back(i);
  }
  const auto bundle = static_cast<std::int64_t>(items[0].tiles.size());
  const std::int64_t num_tiles = static_cast<std::int64_t>(firsts.size()) * bundle;
  for_each_item(pass.pool, num_tiles, [&](std::int64_t /*worker*/, std::int64_t item) {
    std::size_t i = firsts[static_cast<std::size_t>(item / bundle)];
    const std::span<const HeadTile> tiles = items[i].tiles;
    const HeadTile& tile = tiles[static_cast<std::size_t>(item % bundle)];
    const std::int64_t offset = item % bundle * state_elems(shape, tiles[0].num_rows());
    const cpu::SoftmaxRows total = state_at(tile.num_rows(), items[i].states + offset);
    for (++i; i < items.size() && items[i].tiles.data() == tiles.data(); ++i) {
      cpu::kernels().math.softmax_merge(total, state_at(tile.num_rows(), items[i].states + offset),
                                        tile.num_rows(), shape.value_dim);
    }
    write(shape, tile, total);
  });
}

// Every segment of a bundle by one worker.
void attend_by_segment(const AttentionShape& shape,
                       std::span<const HeadTile> tiles,
                       const Shares& shares,
                       const KeyValueSource& source,
                       Pass& pass) {
  std::int64_t max_rows = 0;
  for (const HeadTile& tile : tiles)
    max_rows = std::max(max_rows, tile.num_rows());
  const std::int64_t elems = state_elems(shape, max_rows);
  float* states = pass.workspace.f32({shares.num_segments * elems}).f32();
  std::vector<SegmentItem> items;
  const auto bundle = static_cast<std::size_t>(shares.bundle);
  for (std::size_t first = 0; first < tiles.size(); first += bundle) {
    const TokenTile& tokens = tiles[first].tokens;
    for (std::int64_t i = first_segment(shape, tokens); i < end_segment(tokens); ++i) {
      items.push_back({.tiles = tiles.subspan(first, bundle), .segment = i, .states = states});
      states += shares.bundle * elems;
    }
  }
  const auto num_items = static_cast<std::int64_t>(items.size());
  const TensorView scratch = pass.workspace.f32(
      {num_workers(pass.pool, num_items), worker_elems(shape, tiles, shares.bundle, source)});
  for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t number) {
    const SegmentItem& item = items[static_cast<std::size_t>(number)];
    const TokenTile& tokens = item.tiles[0].tokens;
    const BundleAttention attention(shape, item.tiles, source, scratch.f32_row(worker));
    attention.prepare();
    attention.attend_segment(
        item.segment,
        std::min((item.segment + 1) * kAttentionSegment, tokens.first_position + tokens.num_tokens),
        item.states);
  });
  join(shape, items, pass);
}

}  // namespace

std::vector<TokenTile> token_tiles(const Batch& batch,
                                   std::int64_t first_row,
                                   std::int64_t num_rows,
                                   std::int64_t max_tokens) {
  std::vector<TokenTile> tiles;
  for (const SequenceSlice& sequence : batch.sequences) {
    const std::int64_t end =
        std::min(sequence.first_row + sequence.num_tokens, first_row + num_rows);
    const std::int64_t begin = std::max(sequence.first_row, first_row);
    const std::int64_t position_of_row_0 =
        sequence.context_len - sequence.num_tokens - sequence.first_row;
    for (std::int64_t row = begin; row < end; row += max_tokens) {
      tiles.push_back({.sequence = &sequence,
                       .first_row = row,
                       .first_position = position_of_row_0 + row,
                       .num_tokens = std::min(max_tokens, end - row)});
    }
  }
  return tiles;
}

void attend(const AttentionShape& shape,
            std::span<const HeadTile> tiles,
            std::int64_t bundle,
            const KeyValueSource& source,
            Pass& pass) {
  if (tiles.empty()) return;
  const Workspace::Scope scope(pass.workspace);
  const Shares shares = share_out(shape, tiles, bundle, pass.pool);
  if (shares.by_segment) {
    attend_by_segment(shape, tiles, shares, source, pass);
  } else {
    attend_whole(shape, tiles, shares.bundle, source, pass);
  }
}

}  // namespace graft::ops
