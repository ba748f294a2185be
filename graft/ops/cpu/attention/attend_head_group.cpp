#include "graft/ops/cpu/attention/attend_head_group.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "graft/kernels/cpu/table.h"

namespace graft::ops::cpu {
namespace {

// Max rows of a tile that reads the cache as stored. More rows amortize decoding.
constexpr std::int64_t kMaxStoredRows = 16;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Up to kAttentionRows rows of a tile, the input of one kernel call.
struct RowGroup {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t width = 0;  // `count` padded to full vectors
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

// Pads to full vectors of 16 floats, which also keeps the next array on a cache line.
std::int64_t padded(std::int64_t num_elems) {
  return (num_elems + 15) / 16 * 16;
}

// Floats for the keys and the scores of a block that is read as stored.
std::int64_t stored_elems(const AttentionShape& shape) {
  return (shape.key_dim + kMaxStoredRows) * kAttentionBlock;
}

std::int64_t first_visible(const AttentionShape& shape, std::int64_t position) {
  const std::int64_t chunk_begin = shape.chunk == 0 ? 0 : position / shape.chunk * shape.chunk;
  return shape.window == 0 ? chunk_begin : std::max(chunk_begin, position + 1 - shape.window);
}

}  // namespace

std::int64_t state_elems(const AttentionShape& shape, std::int64_t num_rows) {
  return padded(num_rows) * 2 + padded(num_rows * shape.value_dim);
}

kernels::cpu::SoftmaxState state_at(std::int64_t num_rows, float* memory) {
  return {.max = memory, .sum = memory + padded(num_rows), .acc = memory + 2 * padded(num_rows)};
}

std::int64_t first_split(const AttentionShape& shape, const TokenTile& tokens) {
  return first_visible(shape, tokens.first_position) / kAttentionSplit;
}

std::int64_t end_split(const TokenTile& tokens) {
  return (tokens.first_position + tokens.num_tokens - 1) / kAttentionSplit + 1;
}

void write_results(const AttentionShape& shape,
                   const HeadTile& tile,
                   kernels::cpu::SoftmaxState state) {
  for (std::int64_t row = 0; row < tile.num_rows(); ++row) {
    const float* from = state.acc + row * shape.value_dim;
    float* to =
        tile.out + row / tile.num_heads * tile.out_stride + row % tile.num_heads * shape.value_dim;
    float sum = state.sum[row];
    if (tile.sinks != nullptr) {
      const float sink = tile.sinks[row % tile.num_heads] * std::numbers::log2e_v<float>;
      sum += std::exp2(sink - state.max[row]);
    }
    const float factor = 1.0F / sum;
    for (std::int64_t i = 0; i < shape.value_dim; ++i)
      to[i] = from[i] * factor;
  }
}

// A row group of a tile with its queries and softmax state.
struct HeadGroupAttention::TileRows {
  const HeadTile* tile = nullptr;
  RowGroup rows;
  const float* queries = nullptr;    // [key_dim, width]
  kernels::cpu::SoftmaxState state;  // starts at the group's first row

  std::int64_t position_of(std::int64_t row) const {
    return tile->tokens.first_position + (rows.first + row) / tile->num_heads;
  }
};

// Cache rows of a block of positions and of the block after it.
struct HeadGroupAttention::StoredRows {
  const StoredCache* cache = nullptr;
  kernels::cpu::StoredAttention kernels;
  std::array<const std::byte*, kAttentionBlock> rows;
  std::array<const std::byte*, kAttentionBlock> next;
  std::int64_t num_next = 0;

  StoredRows(const StoredCache& from, const SequenceSlice& sequence, Positions positions)
      : cache(&from), kernels(from.kernels()), num_next(positions.follow) {
    from.row_pointers(sequence, positions.begin, positions.end, rows.data());
    from.row_pointers(sequence, positions.end, positions.end + num_next, next.data());
  }
};

// The keys [first, end) of a block that each row may attend to (causal and window mask).
struct HeadGroupAttention::VisibleKeys {
  bool all = false;
  std::array<std::int32_t, kAttentionRows> first{};
  std::array<std::int32_t, kAttentionRows> end{};
};

std::int64_t HeadGroupAttention::memory_elems(const AttentionShape& shape,
                                              std::int64_t num_rows,
                                              std::int64_t num_tiles,
                                              const KeyValueSource& source) {
  const std::int64_t tile_elems =
      padded(num_rows) * shape.key_dim + 2 * state_elems(shape, num_rows);
  return padded(num_tiles * tile_elems + (kAttentionBlock + 1) * kAttentionRows +
                (source.stored() == nullptr ? 0 : stored_elems(shape)) + source.memory_elems());
}

HeadGroupAttention::HeadGroupAttention(const AttentionShape& shape,
                                       std::span<const HeadTile> tiles,
                                       const KeyValueSource& source,
                                       float* memory)
    : shape_(shape),
      tiles_(tiles),
      source_(source),
      query_elems_(padded(tiles[0].num_rows()) * shape.key_dim),
      state_elems_(state_elems(shape, tiles[0].num_rows())) {
  const auto num_tiles = static_cast<std::int64_t>(tiles.size());
  queries_ = memory;
  scores_ = queries_ + num_tiles * query_elems_;
  correction_ = scores_ + kAttentionBlock * kAttentionRows;
  total_ = correction_ + kAttentionRows;
  split_ = total_ + num_tiles * state_elems_;
  keys_ = split_ + num_tiles * state_elems_;
  by_row_ = keys_ + shape.key_dim * kAttentionBlock;
  memory_ = source.stored() == nullptr ? keys_ : keys_ + stored_elems(shape);
}

void HeadGroupAttention::prepare() const {
  source_.prepare(tiles_[0], memory_);
  // Scaling the queries scales the scores; log2(e) because the softmax uses 2^x.
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
      kernels::cpu::kernels().math.transpose({.data = rows.data(), .rows = group.count},
                                             shape_.key_dim, scale, to, group.width);
    }
  }
}

void HeadGroupAttention::attend_split(std::int64_t split, std::int64_t end, float* states) const {
  const TokenTile& tokens = tiles_[0].tokens;
  for (std::size_t i = 0; i < tiles_.size(); ++i)
    clear(i, states);
  const std::int64_t split_end = std::min((split + 1) * kAttentionSplit, end);
  std::int64_t begin =
      std::max(split * kAttentionSplit, first_visible(shape_, tokens.first_position));
  begin = begin / kAttentionBlock * kAttentionBlock;
  for (; begin < split_end; begin += kAttentionBlock) {
    const std::int64_t block_end = std::min(begin + kAttentionBlock, split_end);
    add_block(
        {.begin = begin, .end = block_end, .follow = std::min(kAttentionBlock, end - block_end)},
        states);
  }
}

void HeadGroupAttention::attend_all() const {
  const TokenTile& tokens = tiles_[0].tokens;
  const std::int64_t first = first_split(shape_, tokens);
  const std::int64_t end = tokens.first_position + tokens.num_tokens;
  attend_split(first, end, total_);
  for (std::int64_t i = first + 1; i < end_split(tokens); ++i) {
    attend_split(i, end, split_);
    for (std::size_t t = 0; t < tiles_.size(); ++t) {
      kernels::cpu::kernels().math.softmax_merge(state(t, total_), state(t, split_),
                                                 tiles_[t].num_rows(), shape_.value_dim);
    }
  }
  for (std::size_t t = 0; t < tiles_.size(); ++t)
    write_results(shape_, tiles_[t], state(t, total_));
}

void HeadGroupAttention::clear(std::size_t tile, float* states) const {
  const kernels::cpu::SoftmaxState rows = state(tile, states);
  const std::int64_t num_rows = tiles_[tile].num_rows();
  std::fill_n(rows.max, padded(num_rows), kMinusInfinity);
  std::fill_n(rows.sum, padded(num_rows), 0.0F);
  std::fill_n(rows.acc, num_rows * shape_.value_dim, 0.0F);
}

bool HeadGroupAttention::reads_stored() const {
  return source_.stored() != nullptr && tiles_[0].num_rows() <= kMaxStoredRows &&
         tiles_[0].selected == nullptr;
}

void HeadGroupAttention::add_block(Positions positions, float* states) const {
  std::optional<StoredRows> stored;
  if (reads_stored()) stored.emplace(*source_.stored(), *tiles_[0].tokens.sequence, positions);
  Block block = {.stored = stored ? &*stored : nullptr, .count = positions.end - positions.begin};
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    const HeadTile& tile = tiles_[i];
    if (!stored && (i == 0 || tile.source != tiles_[i - 1].source))
      block.decoded = source_.load(tile, positions, memory_);
    const kernels::cpu::SoftmaxState rows = state(i, states);
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

HeadGroupAttention::VisibleKeys HeadGroupAttention::visible_keys(const TileRows& group,
                                                                 std::int64_t begin,
                                                                 std::int64_t count) const {
  VisibleKeys visible;
  const std::int64_t last = group.position_of(group.rows.count - 1);
  visible.all = count == kAttentionBlock && group.position_of(0) >= begin + count - 1 &&
                first_visible(shape_, last) <= begin;
  for (std::int64_t r = 0; r < group.rows.count && !visible.all; ++r) {
    const std::int64_t position = group.position_of(r);
    const std::int64_t first = std::max<std::int64_t>(0, first_visible(shape_, position) - begin);
    const std::int64_t end = std::min(count, position + 1 - begin);
    if (first >= end) continue;
    visible.first[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(first);
    visible.end[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(end);
  }
  return visible;
}

// scores_[count, width] of the keys of a block.
void HeadGroupAttention::score(const TileRows& group,
                               const Block& block,
                               std::int64_t count) const {
  if (block.stored != nullptr) return score_stored(group, *block.stored, count);
  const kernels::cpu::RowsF32& keys = block.decoded.keys;
  kernels::cpu::kernels().math.product({.a = keys.data,
                                        .a_row = keys.stride,
                                        .b = group.queries,
                                        .ldb = group.rows.width,
                                        .c = scores_,
                                        .ldc = group.rows.width,
                                        .m = count,
                                        .n = group.rows.width,
                                        .k = shape_.key_dim});
}

// The product has a register per 16 keys instead of one per key, then its result is transposed.
void HeadGroupAttention::score_stored(const TileRows& group,
                                      const StoredRows& rows,
                                      std::int64_t count) const {
  const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
  rows.kernels.decode_transposed(
      stored_block(rows, group.tile->source * shape_.key_dim, {0, count}), keys_, kAttentionBlock);
  math.product({.a = group.queries,
                .a_row = 1,
                .a_col = group.rows.width,
                .b = keys_,
                .ldb = kAttentionBlock,
                .c = by_row_,
                .ldc = kAttentionBlock,
                .m = group.rows.count,
                .n = padded(count),
                .k = shape_.key_dim});
  std::array<const float*, kMaxStoredRows> by_row{};
  for (std::int64_t r = 0; r < group.rows.width; ++r) {
    by_row[static_cast<std::size_t>(r)] =
        by_row_ + std::min(r, group.rows.count - 1) * kAttentionBlock;
  }
  math.transpose({.data = by_row.data(), .rows = group.rows.width}, count, 1.0F, scores_,
                 group.rows.width);
}

// Columns of a head from `first_col` of the cache's rows on, at the block's positions `keys`.
kernels::cpu::StoredBlock HeadGroupAttention::stored_block(const StoredRows& rows,
                                                           std::int64_t first_col,
                                                           Range keys) const {
  const DType dtype = rows.cache->dtype();
  const bool has_next = rows.num_next >= keys.end;
  return {.rows = rows.rows.data() + keys.begin,
          .count = keys.end - keys.begin,
          .cols = shape_.key_dim,
          .offset = static_cast<std::int64_t>(bytes_of(dtype, first_col)),
          .bytes = static_cast<std::int64_t>(bytes_of(dtype, shape_.key_dim)),
          .next = has_next ? rows.next.data() + keys.begin : nullptr};
}

void HeadGroupAttention::add_block_to(const TileRows& group,
                                      std::int64_t begin,
                                      const Block& block) const {
  const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
  const std::int64_t count =
      std::min(block.count, group.position_of(group.rows.count - 1) + 1 - begin);
  if (count <= 0) return;  // the whole block is masked
  score(group, block, count);
  const VisibleKeys visible = visible_keys(group, begin, count);
  math.softmax_block({.scores = scores_,
                      .count = count,
                      .width = group.rows.width,
                      .first = visible.all ? nullptr : visible.first.data(),
                      .end = visible.all ? nullptr : visible.end.data(),
                      .max = group.state.max,
                      .sum = group.state.sum,
                      .correction = correction_});
  if (visible.all) {
    add_values(group, {0, group.rows.count}, {0, count}, block);
    return;
  }
  // One product per run of rows with the same visible keys. Masked keys are skipped, not weighted
  // by 0: 0 times an unwritten value may be NaN, and adding 0 turns -0 into 0.
  for (std::int64_t r = 0; r < group.rows.count;) {
    const Range keys = {visible.first[static_cast<std::size_t>(r)],
                        visible.end[static_cast<std::size_t>(r)]};
    std::int64_t end = r + 1;
    while (end < group.rows.count && visible.first[static_cast<std::size_t>(end)] == keys.begin &&
           visible.end[static_cast<std::size_t>(end)] == keys.end) {
      ++end;
    }
    add_values(group, {r, end}, keys, block);
    r = end;
  }
}

// acc[rows, value_dim] = correction * acc + weights[rows, keys] * values[keys, value_dim].
void HeadGroupAttention::add_values(const TileRows& group,
                                    Range rows,
                                    Range keys,
                                    const Block& block) const {
  if (keys.begin >= keys.end) return;
  const float* weights = scores_ + keys.begin * group.rows.width + rows.begin;
  float* acc = group.state.acc + rows.begin * shape_.value_dim;
  if (block.stored != nullptr) {
    const StoredCache& cache = *block.stored->cache;
    const std::int64_t first_col = cache.key_size() + group.tile->source * shape_.value_dim;
    block.stored->kernels.add_values(stored_block(*block.stored, first_col, keys),
                                     {.weights = weights,
                                      .width = group.rows.width,
                                      .factor = correction_ + rows.begin,
                                      .acc = acc,
                                      .ld = shape_.value_dim,
                                      .m = rows.end - rows.begin});
    return;
  }
  const kernels::cpu::RowsF32& values = block.decoded.values;
  kernels::cpu::kernels().math.product({.a = weights,
                                        .a_row = 1,
                                        .a_col = group.rows.width,
                                        .b = values.data + keys.begin * values.stride,
                                        .ldb = values.stride,
                                        .c = acc,
                                        .ldc = shape_.value_dim,
                                        .m = rows.end - rows.begin,
                                        .n = shape_.value_dim,
                                        .k = keys.end - keys.begin,
                                        .factor = correction_ + rows.begin});
}

}  // namespace graft::ops::cpu
