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
// Tiles are cut into segments when there are fewer than this per worker, and if what the segments
// know until they are joined takes no more than so many floats.
constexpr std::int64_t kTilesPerWorker = 4;
constexpr std::int64_t kMaxPartElems = std::int64_t{1} << 24;

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

struct Scratch {
  float* queries;     // per row group [key_dim, width]
  float* scores;      // [kAttentionBlock, kAttentionRows]
  float* correction;  // [kAttentionRows]
  float* total;       // a state
  float* segment;     // a state
  float* source;

  static std::int64_t elems(const AttentionShape& shape, std::int64_t num_rows) {
    return padded(num_rows) * shape.key_dim + (kAttentionBlock + 1) * kAttentionRows +
           2 * state_elems(shape, num_rows);
  }

  Scratch(const AttentionShape& shape, std::int64_t num_rows, float* memory)
      : queries(memory),
        scores(queries + padded(num_rows) * shape.key_dim),
        correction(scores + kAttentionBlock * kAttentionRows),
        total(correction + kAttentionRows),
        segment(total + state_elems(shape, num_rows)),
        source(segment + state_elems(shape, num_rows)) {}
};

// One tile on one worker.
class TileAttention {
 public:
  TileAttention(const AttentionShape& shape,
                const HeadTile& tile,
                const KeyValueSource& source,
                float* memory)
      : shape_(shape),
        tile_(tile),
        source_(source),
        num_rows_(tile.num_rows()),
        s_(shape, num_rows_, memory) {}

  // The segments a tile has to do with: [first, end).
  static std::int64_t first_segment(const AttentionShape& shape, const TokenTile& tokens) {
    return first_seen(shape, tokens.first_position) / kAttentionSegment;
  }
  static std::int64_t end_segment(const TokenTile& tokens) {
    return (tokens.first_position + tokens.num_tokens - 1) / kAttentionSegment + 1;
  }

  void prepare() const {
    source_.prepare(tile_, s_.source);
    // The scale of the scores, in powers of two, is that of the queries.
    const float scale = shape_.scale * std::numbers::log2e_v<float>;
    for (std::int64_t first = 0; first < num_rows_; first += kAttentionRows) {
      const RowGroup group = row_group(num_rows_, first);
      float* to = s_.queries + first * shape_.key_dim;
      if (group.count < group.width) std::fill_n(to, group.width * shape_.key_dim, 0.0F);
      std::array<const float*, kAttentionRows> rows{};
      for (std::int64_t r = 0; r < group.count; ++r)
        rows[static_cast<std::size_t>(r)] = query(first + r);
      cpu::kernels().math.transpose({.data = rows.data(), .rows = group.count}, shape_.key_dim,
                                    scale, to, group.width);
    }
  }

  // What the rows know of one segment.
  void attend_segment(std::int64_t segment, cpu::SoftmaxRows state) const {
    std::fill_n(state.max, padded(num_rows_), kNothing);
    std::fill_n(state.sum, padded(num_rows_), 0.0F);
    std::fill_n(state.acc, num_rows_ * shape_.value_dim, 0.0F);
    const std::int64_t end =
        std::min((segment + 1) * kAttentionSegment, position_of(num_rows_ - 1) + 1);
    std::int64_t begin = std::max(segment * kAttentionSegment, first_seen(shape_, position_of(0)));
    begin = begin / kAttentionBlock * kAttentionBlock;
    for (; begin < end; begin += kAttentionBlock) {
      const std::int64_t block_end = std::min(begin + kAttentionBlock, end);
      const KeysAndValues block = source_.load(tile_, begin, block_end, s_.source);
      for (std::int64_t first = 0; first < num_rows_; first += kAttentionRows)
        add_block(row_group(num_rows_, first), begin, block, state);
    }
  }

  // All segments, joined.
  void attend_all() const {
    const std::int64_t first = first_segment(shape_, tile_.tokens);
    const cpu::SoftmaxRows total = state_at(num_rows_, s_.total);
    const cpu::SoftmaxRows part = state_at(num_rows_, s_.segment);
    attend_segment(first, total);
    for (std::int64_t i = first + 1; i < end_segment(tile_.tokens); ++i) {
      attend_segment(i, part);
      cpu::kernels().math.softmax_merge(total, part, num_rows_, shape_.value_dim);
    }
    write(total);
  }

  void write(cpu::SoftmaxRows state) const {
    for (std::int64_t row = 0; row < num_rows_; ++row) {
      float* out = tile_.out + row / tile_.num_heads * tile_.out_stride +
                   row % tile_.num_heads * shape_.value_dim;
      std::copy_n(state.acc + row * shape_.value_dim, shape_.value_dim, out);
      cpu::kernels().math.scale(out, shape_.value_dim, 1.0F / state.sum[row]);
    }
  }

 private:
  static std::int64_t first_seen(const AttentionShape& shape, std::int64_t position) {
    return shape.window == 0 ? 0 : std::max<std::int64_t>(0, position + 1 - shape.window);
  }
  std::int64_t position_of(std::int64_t row) const {
    return tile_.tokens.first_position + row / tile_.num_heads;
  }
  const float* query(std::int64_t row) const {
    return tile_.queries + row / tile_.num_heads * tile_.query_stride +
           row % tile_.num_heads * shape_.key_dim;
  }

  // Which keys of a block each row sees.
  struct Seen {
    bool all = false;
    std::array<std::int32_t, kAttentionRows> first{};
    std::array<std::int32_t, kAttentionRows> end{};
  };

  Seen seen_by(RowGroup group, std::int64_t begin, std::int64_t count) const {
    Seen seen;
    const std::int64_t first_position = position_of(group.first);
    const std::int64_t last_position = position_of(group.first + group.count - 1);
    seen.all = count == kAttentionBlock && first_position >= begin + count - 1 &&
               first_seen(shape_, last_position) <= begin;
    for (std::int64_t r = 0; r < group.count && !seen.all; ++r) {
      const std::int64_t position = position_of(group.first + r);
      const std::int64_t first = std::max<std::int64_t>(0, first_seen(shape_, position) - begin);
      const std::int64_t end = std::min(count, position + 1 - begin);
      if (first >= end) continue;
      seen.first[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(first);
      seen.end[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(end);
    }
    return seen;
  }

  void add_block(RowGroup group,
                 std::int64_t begin,
                 const KeysAndValues& block,
                 cpu::SoftmaxRows state) const {
    const cpu::MathTable& math = cpu::kernels().math;
    const std::int64_t count = block.keys.rows;
    math.product({.a = block.keys.data,
                  .a_row = block.keys.stride,
                  .b = s_.queries + group.first * shape_.key_dim,
                  .ldb = group.width,
                  .c = s_.scores,
                  .ldc = group.width,
                  .m = count,
                  .n = group.width,
                  .k = shape_.key_dim});
    const Seen seen = seen_by(group, begin, count);
    math.softmax_block({.scores = s_.scores,
                        .count = count,
                        .width = group.width,
                        .first = seen.all ? nullptr : seen.first.data(),
                        .end = seen.all ? nullptr : seen.end.data(),
                        .max = state.max + group.first,
                        .sum = state.sum + group.first,
                        .correction = s_.correction});
    if (seen.all) {
      add_values(group, {.first = 0, .count = group.count}, {0, count}, block.values, state);
      return;
    }
    // Rows that see the same keys together. No row is given a key it does not see: 0 times what
    // stands there might be NaN, and could turn -0 into 0.
    for (std::int64_t r = 0; r < group.count;) {
      const Range keys = {seen.first[static_cast<std::size_t>(r)],
                          seen.end[static_cast<std::size_t>(r)]};
      std::int64_t end = r + 1;
      while (end < group.count && seen.first[static_cast<std::size_t>(end)] == keys.begin &&
             seen.end[static_cast<std::size_t>(end)] == keys.end) {
        ++end;
      }
      add_values(group, {.first = r, .count = end - r}, keys, block.values, state);
      r = end;
    }
  }

  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  // acc = correction acc + weights times values, for some rows of a group and the keys they see.
  void add_values(RowGroup group,
                  RowGroup rows,
                  Range keys,
                  cpu::RowsF32 values,
                  cpu::SoftmaxRows state) const {
    if (keys.begin >= keys.end) return;
    cpu::kernels().math.product({.a = s_.scores + keys.begin * group.width + rows.first,
                                 .a_row = 1,
                                 .a_col = group.width,
                                 .b = values.data + keys.begin * values.stride,
                                 .ldb = values.stride,
                                 .c = state.acc + (group.first + rows.first) * shape_.value_dim,
                                 .ldc = shape_.value_dim,
                                 .m = rows.count,
                                 .n = shape_.value_dim,
                                 .k = keys.end - keys.begin,
                                 .factor = s_.correction + rows.first});
  }

  const AttentionShape& shape_;
  const HeadTile& tile_;
  const KeyValueSource& source_;
  std::int64_t num_rows_;
  Scratch s_;
};

// A segment of a tile, and where its state goes.
struct SegmentItem {
  const HeadTile* tile = nullptr;
  std::int64_t segment = 0;
  std::int64_t state = 0;  // offset in floats
};

struct Split {
  std::vector<SegmentItem> items;  // of a tile in ascending order
  std::int64_t state_elems = 0;
};

Split split(const AttentionShape& shape, std::span<const HeadTile> tiles) {
  Split result;
  for (const HeadTile& tile : tiles) {
    const std::int64_t end = TileAttention::end_segment(tile.tokens);
    for (std::int64_t i = TileAttention::first_segment(shape, tile.tokens); i < end; ++i) {
      result.items.push_back({.tile = &tile, .segment = i, .state = result.state_elems});
      result.state_elems += state_elems(shape, tile.num_rows());
    }
  }
  return result;
}

// Joins the states of each tile's segments: the first becomes the total.
void join(const AttentionShape& shape,
          const Split& parts,
          const KeyValueSource& source,
          float* states,
          Pass& pass) {
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < parts.items.size(); ++i) {
    if (i == 0 || parts.items[i].tile != parts.items[i - 1].tile) firsts.push_back(i);
  }
  const auto num_tiles = static_cast<std::int64_t>(firsts.size());
  for_each_item(pass.pool, num_tiles, [&](std::int64_t /*worker*/, std::int64_t item) {
    std::size_t i = firsts[static_cast<std::size_t>(item)];
    const HeadTile& tile = *parts.items[i].tile;
    const cpu::SoftmaxRows total = state_at(tile.num_rows(), states + parts.items[i].state);
    for (++i; i < parts.items.size() && parts.items[i].tile == &tile; ++i) {
      cpu::kernels().math.softmax_merge(total,
                                        state_at(tile.num_rows(), states + parts.items[i].state),
                                        tile.num_rows(), shape.value_dim);
    }
    TileAttention(shape, tile, source, nullptr).write(total);
  });
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
            const KeyValueSource& source,
            Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  std::int64_t max_rows = 0;
  for (const HeadTile& tile : tiles)
    max_rows = std::max(max_rows, tile.num_rows());
  const std::int64_t worker_elems = padded(Scratch::elems(shape, max_rows) + source.memory_elems());
  const auto num_tiles = static_cast<std::int64_t>(tiles.size());
  const auto num_threads = static_cast<std::int64_t>(pass.pool.num_threads());
  Split parts;
  if (num_threads > 1 && num_tiles < kTilesPerWorker * num_threads) parts = split(shape, tiles);
  const auto num_parts = static_cast<std::int64_t>(parts.items.size());
  if (num_parts <= num_tiles || parts.state_elems > kMaxPartElems) {
    const TensorView scratch =
        pass.workspace.f32({num_workers(pass.pool, num_tiles), worker_elems});
    for_each_item(pass.pool, num_tiles, [&](std::int64_t worker, std::int64_t item) {
      // The last first: those of late positions take longest.
      const HeadTile& tile = tiles[static_cast<std::size_t>(num_tiles - 1 - item)];
      const TileAttention attention(shape, tile, source, scratch.f32_row(worker));
      attention.prepare();
      attention.attend_all();
    });
    return;
  }
  const TensorView states = pass.workspace.f32({parts.state_elems});
  const TensorView scratch = pass.workspace.f32({num_workers(pass.pool, num_parts), worker_elems});
  for_each_item(pass.pool, num_parts, [&](std::int64_t worker, std::int64_t item) {
    const SegmentItem& part = parts.items[static_cast<std::size_t>(item)];
    const TileAttention attention(shape, *part.tile, source, scratch.f32_row(worker));
    attention.prepare();
    attention.attend_segment(part.segment,
                             state_at(part.tile->num_rows(), states.f32() + part.state));
  });
  join(shape, parts, source, states.f32(), pass);
}

}  // namespace graft::ops
