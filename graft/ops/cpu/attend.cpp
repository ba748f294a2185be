#include "graft/ops/cpu/attend.h"

#include <algorithm>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/attend_bundle.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

// Items per worker that even out the work.
constexpr std::int64_t kItemsPerWorker = 4;
// Floats for what the segments know until they are joined: beyond that tiles are not cut.
constexpr std::int64_t kMaxStateElems = std::int64_t{1} << 24;

std::int64_t max_rows(std::span<const HeadTile> tiles) {
  std::int64_t rows = 0;
  for (const HeadTile& tile : tiles)
    rows = std::max(rows, tile.num_rows());
  return rows;
}

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

Shares plan_splits(const AttentionShape& shape,
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
  shares.by_segment = num_tiles / shares.bundle < enough && shares.num_segments > num_tiles &&
                      shares.num_segments * state_elems(shape, max_rows(tiles)) <= kMaxStateElems;
  return shares;
}

// Every bundle by one worker.
void attend_whole(const AttentionShape& shape,
                  std::span<const HeadTile> tiles,
                  std::int64_t bundle,
                  const KeyValueSource& source,
                  Pass& pass) {
  const std::int64_t num_items = static_cast<std::int64_t>(tiles.size()) / bundle;
  const TensorView scratch =
      pass.workspace.f32({num_workers(pass.pool, num_items),
                          BundleAttention::memory_elems(shape, max_rows(tiles), bundle, source)});
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
    const kernels::cpu::SoftmaxRows total = state_at(tile.num_rows(), items[i].states + offset);
    for (++i; i < items.size() && items[i].tiles.data() == tiles.data(); ++i) {
      kernels::cpu::kernels().math.softmax_merge(
          total, state_at(tile.num_rows(), items[i].states + offset), tile.num_rows(),
          shape.value_dim);
    }
    write_results(shape, tile, total);
  });
}

// Every segment of a bundle by one worker.
void attend_by_segment(const AttentionShape& shape,
                       std::span<const HeadTile> tiles,
                       const Shares& shares,
                       const KeyValueSource& source,
                       Pass& pass) {
  const std::int64_t elems = state_elems(shape, max_rows(tiles));
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
      {num_workers(pass.pool, num_items),
       BundleAttention::memory_elems(shape, max_rows(tiles), shares.bundle, source)});
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
  const Shares shares = plan_splits(shape, tiles, bundle, pass.pool);
  if (shares.by_segment) {
    attend_by_segment(shape, tiles, shares, source, pass);
  } else {
    attend_whole(shape, tiles, shares.bundle, source, pass);
  }
}

}  // namespace graft::ops::cpu
