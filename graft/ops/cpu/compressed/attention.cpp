#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/ops/cpu/attention/attend.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {
namespace {

// Rows of two caches, named by one list of numbers: n >= 0 is row n of the cache of tokens, n < 0
// row -1 - n of the compressor's cache of entries.
class TokensAndEntries final : public KeyValueSource {
 public:
  TokensAndEntries(const KvCache& tokens, const KvCache* entries, std::int64_t head_dim)
      : tokens_(tokens), entries_(entries), head_dim_(head_dim) {}

  std::int64_t memory_elems() const override { return kAttentionBlock * head_dim_; }

  KeysAndValues load(const HeadTile& tile, Positions positions, float* memory) const override {
    for (std::int64_t i = positions.begin; i < positions.end;) {
      const std::int64_t first = tile.selected[i];
      std::int64_t count = 1;
      while (first >= 0 && i + count < positions.end && tile.selected[i + count] == first + count)
        ++count;
      const KvCache& cache = first >= 0 ? tokens_ : *entries_;
      const std::int64_t row = first >= 0 ? first : -1 - first;
      cache.read_keys(*tile.tokens.sequence,
                      {.begin = row, .end = row + count, .first_col = 0, .num_cols = head_dim_},
                      memory + (i - positions.begin) * head_dim_);
      i += count;
    }
    const kernels::cpu::RowsF32 rows = {
        .data = memory, .rows = positions.end - positions.begin, .stride = head_dim_};
    return {.keys = rows, .values = rows};
  }

 private:
  const KvCache& tokens_;
  const KvCache* entries_;  // null: there is no compressor
  std::int64_t head_dim_;
};

// Every token has a list of its own, so that the order of its sums depends on its position alone:
// entries, then the window, both ascending.
class CompressedAttentionCpu final : public AttentionCore {
 public:
  explicit CompressedAttentionCpu(const BuildContext& context)
      : params_(context.params_as<CompressedAttentionParams>()),
        module_(context.module),
        kv_cache_(*context.child_as<KvCache>("kv_cache")),
        entries_(params_.compress_rate == 0 ? nullptr
                                            : context.child_as<KvCache>("compressor.kv_cache").op) {
  }

  void load(WeightProvider& weights) override {
    sinks_ = load_vector(weights, module_ + ".sinks", params_.num_heads);
  }
  void unload() override { sinks_ = {}; }

  void forward(TensorView q, TensorView out, Pass& pass) override {
    attend_to_lists(q, {}, out, pass);
  }

  void forward_selected(TensorView q, TensorView selected, TensorView out, Pass& pass) override {
    attend_to_lists(q, selected, out, pass);
  }

 private:
  std::int64_t num_entries(std::int64_t position) const {
    return params_.compress_rate == 0 ? 0 : (position + 1) / params_.compress_rate;
  }

  // Max length of a list at this position.
  std::int64_t max_rows(std::int64_t position) const {
    std::int64_t entries = num_entries(position);
    if (params_.index_top_k > 0) entries = std::min(entries, params_.index_top_k);
    return entries + std::min(position + 1, params_.sliding_window);
  }

  std::int32_t entry_row(std::int64_t entry) const {
    return static_cast<std::int32_t>(-1 - ((entry + 1) * params_.compress_rate - 1));
  }

  // Returns the length. selected: the entries of an indexer, -1 after the last one; null: all.
  std::int64_t make_list(std::int64_t position,
                         const std::int32_t* selected,
                         std::int32_t* list) const {
    std::int64_t count = 0;
    const std::int64_t limit = selected == nullptr ? num_entries(position) : params_.index_top_k;
    for (std::int64_t i = 0; i < limit; ++i) {
      if (selected != nullptr && selected[i] < 0) break;
      list[count++] = entry_row(selected == nullptr ? i : selected[i]);
    }
    for (std::int64_t row = std::max<std::int64_t>(0, position + 1 - params_.sliding_window);
         row <= position; ++row) {
      list[count++] = static_cast<std::int32_t>(row);
    }
    return count;
  }

  void attend_to_lists(TensorView q, TensorView selected, TensorView out, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const std::vector<TokenTile> tokens = token_tiles(pass.batch, 0, q.rows(), 1);
    std::int64_t longest = 0;
    for (const TokenTile& token : tokens)
      longest = std::max(longest, max_rows(token.first_position));
    const auto num_tokens = static_cast<std::int64_t>(tokens.size());
    auto* lists = pass.workspace.allocate(DType::I32, {num_tokens, longest}).as<std::int32_t>();
    std::vector<HeadTile> tiles(tokens.size());
    for_each_item(pass.pool, num_tokens, [&](std::int64_t /*worker*/, std::int64_t i) {
      const TokenTile& token = tokens[static_cast<std::size_t>(i)];
      std::int32_t* list = lists + i * longest;
      const std::int32_t* chosen =
          selected.data == nullptr
              ? nullptr
              : selected.as<std::int32_t>() + token.first_row * params_.index_top_k;
      const std::int64_t count = make_list(token.first_position, chosen, list);
      HeadTile& tile = tiles[static_cast<std::size_t>(i)];
      tile = {.tokens = token,
              .queries = q.f32_row(token.first_row),
              .query_stride = q.cols(),
              .out = out.f32_row(token.first_row),
              .out_stride = out.cols(),
              .num_heads = params_.num_heads,
              .sinks = sinks_.data(),
              .selected = list};
      tile.tokens.first_position = count - 1;
    });
    const AttentionShape shape = {
        .key_dim = params_.head_dim, .value_dim = params_.head_dim, .scale = params_.scale};
    attend(shape, tiles, 1, TokensAndEntries(kv_cache_, entries_, params_.head_dim), pass);
  }

  CompressedAttentionParams params_;
  std::string module_;
  KvCache& kv_cache_;
  const KvCache* entries_;  // null: there is no compressor
  std::vector<float> sinks_;
};

}  // namespace

std::unique_ptr<AttentionCore> make_compressed_attention_core(const BuildContext& context) {
  return std::make_unique<CompressedAttentionCpu>(context);
}

}  // namespace graft::ops::cpu
