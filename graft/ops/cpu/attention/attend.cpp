#include "graft/ops/cpu/attention/attend.h"

#include <algorithm>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/attention/attend_head_group.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

// Work items per thread, enough for load balancing.
constexpr std::int64_t kItemsPerWorker = 4;
// Max floats of all split states (64 MiB); beyond it tiles are not split.
constexpr std::int64_t kMaxStateElems = std::int64_t{1} << 24;

std::int64_t max_rows(std::span<const HeadTile> tiles) {
  std::int64_t rows = 0;
  for (const HeadTile& tile : tiles)
    rows = std::max(rows, tile.num_rows());
  return rows;
}

// One KV split of a head group, and its states, one per tile.
struct SplitItem {
  std::span<const HeadTile> tiles;
  std::int64_t split = 0;
  float* states = nullptr;
};

struct SplitPlan {
  std::int64_t tiles_per_group = 1;
  bool by_split = false;        // a work item is a split of a head group; else the whole group
  std::int64_t num_splits = 0;  // of all tiles
};

SplitPlan plan_splits(const AttentionShape& shape,
                      std::span<const HeadTile> tiles,
                      std::int64_t tiles_per_group,
                      const ThreadPool& pool) {
  SplitPlan plan = {.tiles_per_group = tiles_per_group};
  for (const HeadTile& tile : tiles)
    plan.num_splits += end_split(tile.tokens) - first_split(shape, tile.tokens);
  const auto num_threads = static_cast<std::int64_t>(pool.num_threads());
  if (num_threads == 1) return plan;
  const std::int64_t enough = kItemsPerWorker * num_threads;
  while (plan.tiles_per_group > 1 && plan.num_splits / plan.tiles_per_group < enough)
    plan.tiles_per_group = plan.tiles_per_group % 2 == 0 ? plan.tiles_per_group / 2 : 1;
  const auto num_tiles = static_cast<std::int64_t>(tiles.size());
  plan.by_split = num_tiles / plan.tiles_per_group < enough && plan.num_splits > num_tiles &&
                  plan.num_splits * state_elems(shape, max_rows(tiles)) <= kMaxStateElems;
  return plan;
}

// One work item per head group.
void attend_whole(const AttentionShape& shape,
                  std::span<const HeadTile> tiles,
                  std::int64_t tiles_per_group,
                  const KeyValueSource& source,
                  Pass& pass) {
  const std::int64_t num_items = static_cast<std::int64_t>(tiles.size()) / tiles_per_group;
  const TensorView scratch = pass.workspace.f32(
      {num_workers(pass.pool, num_items),
       HeadGroupAttention::memory_elems(shape, max_rows(tiles), tiles_per_group, source)});
  for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t item) {
    // Descending order: later positions have more keys and take longest.
    const auto first = static_cast<std::size_t>((num_items - 1 - item) * tiles_per_group);
    const HeadGroupAttention attention(
        shape, tiles.subspan(first, static_cast<std::size_t>(tiles_per_group)), source,
        scratch.f32_row(worker));
    attention.prepare();
    attention.attend_all();
  });
}

// Merges the splits of each tile in ascending order into its first one.
void merge_splits(const AttentionShape& shape, std::span<const SplitItem> items, Pass& pass) {
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0 || items[i].tiles.data() != items[i - 1].tiles.data()) firsts.push_back(i);
  }
  const auto tiles_per_group = static_cast<std::int64_t>(items[0].tiles.size());
  const std::int64_t num_tiles = static_cast<std::int64_t>(firsts.size()) * tiles_per_group;
  for_each_item(pass.pool, num_tiles, [&](std::int64_t /*worker*/, std::int64_t item) {
    std::size_t i = firsts[static_cast<std::size_t>(item / tiles_per_group)];
    const std::span<const HeadTile> tiles = items[i].tiles;
    const HeadTile& tile = tiles[static_cast<std::size_t>(item % tiles_per_group)];
    const std::int64_t offset = item % tiles_per_group * state_elems(shape, tiles[0].num_rows());
    const kernels::cpu::SoftmaxState total = state_at(tile.num_rows(), items[i].states + offset);
    for (++i; i < items.size() && items[i].tiles.data() == tiles.data(); ++i) {
      kernels::cpu::kernels().math.softmax_merge(
          total, state_at(tile.num_rows(), items[i].states + offset), tile.num_rows(),
          shape.value_dim);
    }
    write_results(shape, tile, total);
  });
}

// One work item per KV split of a head group.
void attend_splits(const AttentionShape& shape,
                   std::span<const HeadTile> tiles,
                   const SplitPlan& plan,
                   const KeyValueSource& source,
                   Pass& pass) {
  const std::int64_t elems = state_elems(shape, max_rows(tiles));
  float* states = pass.workspace.f32({plan.num_splits * elems}).f32();
  std::vector<SplitItem> items;
  const auto tiles_per_group = static_cast<std::size_t>(plan.tiles_per_group);
  for (std::size_t first = 0; first < tiles.size(); first += tiles_per_group) {
    const TokenTile& tokens = tiles[first].tokens;
    for (std::int64_t i = first_split(shape, tokens); i < end_split(tokens); ++i) {
      items.push_back(
          {.tiles = tiles.subspan(first, tiles_per_group), .split = i, .states = states});
      states += plan.tiles_per_group * elems;
    }
  }
  const auto num_items = static_cast<std::int64_t>(items.size());
  const TensorView scratch = pass.workspace.f32(
      {num_workers(pass.pool, num_items),
       HeadGroupAttention::memory_elems(shape, max_rows(tiles), plan.tiles_per_group, source)});
  for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t item_idx) {
    const SplitItem& item = items[static_cast<std::size_t>(item_idx)];
    const TokenTile& tokens = item.tiles[0].tokens;
    const HeadGroupAttention attention(shape, item.tiles, source, scratch.f32_row(worker));
    attention.prepare();
    attention.attend_split(
        item.split,
        std::min((item.split + 1) * kAttentionSplit, tokens.first_position + tokens.num_tokens),
        item.states);
  });
  merge_splits(shape, items, pass);
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
            std::int64_t tiles_per_group,
            const KeyValueSource& source,
            Pass& pass) {
  if (tiles.empty()) return;
  const Workspace::Scope scope(pass.workspace);
  const SplitPlan plan = plan_splits(shape, tiles, tiles_per_group, pass.pool);
  if (plan.by_split) {
    attend_splits(shape, tiles, plan, source, pass);
  } else {
    attend_whole(shape, tiles, plan.tiles_per_group, source, pass);
  }
}

}  // namespace graft::ops::cpu
