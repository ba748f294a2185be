#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/attention/attend.h"
#include "graft/ops/cpu/attention/top_positions.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {
namespace {

// Tokens whose queries share a block of decoded index keys.
constexpr std::int64_t kIndexTokens = 4;
// Positions per work item: one sequence of a few thousand tokens occupies all cores.
constexpr std::int64_t kIndexSplit = 512;
// Max floats of the scores in memory at a time (16 MiB); a longer context is one token at a time.
constexpr std::int64_t kMaxScores = std::int64_t{1} << 22;

// Scores of the positions [begin, end) for a tile of tokens.
struct ScoreItem {
  TokenTile tokens;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t scores_row = 0;  // of the tile's first token
};

// Every score is one chain of sums over the dimensions and the heads, so its bits depend on the
// token and the position alone.
class IndexerCpu final : public IndexerCore {
 public:
  explicit IndexerCpu(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<IndexerParams>()),
        kv_cache_(*context.child_as<KvCache>("kv_cache")) {}

  void load(WeightProvider& weights) override {
    if (params_.compress_rate > 1) return;  // the compressor norms the keys
    norm_weight_ = load_vector(weights, module_ + ".k_norm.weight", params_.head_dim);
    norm_bias_ = load_vector(weights, module_ + ".k_norm.bias", params_.head_dim);
  }
  void unload() override {
    norm_weight_ = {};
    norm_bias_ = {};
  }

  void norm_keys(TensorView keys, Pass& pass) override {
    for_each_item(pass.pool, keys.rows(),
                  [&](std::int64_t /*worker*/, std::int64_t row) { norm_key(keys.f32_row(row)); });
  }

  void select(TensorView q, TensorView weights, TensorView selected, Pass& pass) override {
    auto* out = static_cast<std::int32_t*>(selected.data);
    std::vector<TokenTile> sparse;
    for (const TokenTile& tile : token_tiles(pass.batch, 0, q.rows(), 1)) {
      const std::int64_t count = num_keys(tile.first_position);
      if (count > params_.top_k) {
        sparse.push_back(tile);
      } else {
        select_all(count, out + tile.first_row * params_.top_k);
      }
    }
    for (std::size_t first = 0; first < sparse.size();) {
      const std::size_t end = end_of_group(sparse, first);
      select_group(std::span(sparse).subspan(first, end - first), q, weights, out, pass);
      first = end;
    }
  }

 private:
  // Keys that a token at this position may see.
  std::int64_t num_keys(std::int64_t position) const {
    return (position + 1) / params_.compress_rate;
  }

  void norm_key(float* key) const {
    const auto size = static_cast<double>(params_.head_dim);
    double sum = 0.0;
    for (std::int64_t i = 0; i < params_.head_dim; ++i)
      sum += static_cast<double>(key[i]);
    const double mean = sum / size;
    double squares = 0.0;
    for (std::int64_t i = 0; i < params_.head_dim; ++i) {
      const double difference = static_cast<double>(key[i]) - mean;
      squares += difference * difference;
    }
    const double factor = 1.0 / std::sqrt(squares / size + params_.key_norm_eps);
    for (std::int64_t i = 0; i < params_.head_dim; ++i) {
      const auto normed = static_cast<float>((static_cast<double>(key[i]) - mean) * factor);
      key[i] = normed * norm_weight_[static_cast<std::size_t>(i)] +
               norm_bias_[static_cast<std::size_t>(i)];
    }
  }

  void select_all(std::int64_t count, std::int32_t* out) const {
    for (std::int64_t i = 0; i < params_.top_k; ++i)
      out[i] = i < count ? static_cast<std::int32_t>(i) : -1;
  }

  // The tokens from `first` on whose scores fit into kMaxScores floats.
  std::size_t end_of_group(const std::vector<TokenTile>& tokens, std::size_t first) const {
    std::int64_t longest = 0;
    std::size_t end = first;
    for (; end < tokens.size(); ++end) {
      longest = std::max(longest, num_keys(tokens[end].first_position));
      const auto count = static_cast<std::int64_t>(end - first) + 1;
      if (count > 1 && count * longest > kMaxScores) break;
    }
    return end;
  }

  void select_group(std::span<const TokenTile> tokens,
                    TensorView q,
                    TensorView weights,
                    std::int32_t* out,
                    Pass& pass) {
    std::int64_t longest = 0;
    for (const TokenTile& token : tokens)
      longest = std::max(longest, num_keys(token.first_position));
    const Workspace::Scope scope(pass.workspace);
    const auto num_tokens = static_cast<std::int64_t>(tokens.size());
    const TensorView scores = pass.workspace.f32({num_tokens, longest});
    score(items_of(tokens), q, weights, scores, pass);
    std::vector<std::vector<std::uint32_t>> keys(
        static_cast<std::size_t>(num_workers(pass.pool, num_tokens)));
    for_each_item(pass.pool, num_tokens, [&](std::int64_t worker, std::int64_t i) {
      const TokenTile& token = tokens[static_cast<std::size_t>(i)];
      select_top_positions(
          {scores.f32_row(i), static_cast<std::size_t>(num_keys(token.first_position))},
          keys[static_cast<std::size_t>(worker)],
          {out + token.first_row * params_.top_k, static_cast<std::size_t>(params_.top_k)});
    });
  }

  // Consecutive tokens of a sequence in tiles of kIndexTokens, by splits of the positions.
  std::vector<ScoreItem> items_of(std::span<const TokenTile> tokens) const {
    std::vector<ScoreItem> items;
    for (std::size_t first = 0; first < tokens.size();) {
      TokenTile tile = tokens[first];
      while (tile.num_tokens < kIndexTokens &&
             first + static_cast<std::size_t>(tile.num_tokens) < tokens.size() &&
             tokens[first + static_cast<std::size_t>(tile.num_tokens)].sequence == tile.sequence) {
        ++tile.num_tokens;
      }
      const std::int64_t end = num_keys(tile.first_position + tile.num_tokens - 1);
      for (std::int64_t begin = 0; begin < end; begin += kIndexSplit) {
        items.push_back({.tokens = tile,
                         .begin = begin,
                         .end = std::min(begin + kIndexSplit, end),
                         .scores_row = static_cast<std::int64_t>(first)});
      }
      first += static_cast<std::size_t>(tile.num_tokens);
    }
    return items;
  }

  std::int64_t max_rows() const { return (kIndexTokens * params_.num_heads + 15) / 16 * 16; }

  void score(const std::vector<ScoreItem>& items,
             TensorView q,
             TensorView weights,
             TensorView scores,
             Pass& pass) {
    const auto num_items = static_cast<std::int64_t>(items.size());
    // Keys [kAttentionBlock, head_dim], queries [head_dim, rows], products [kAttentionBlock, rows].
    const std::int64_t elems =
        (kAttentionBlock + max_rows()) * params_.head_dim + kAttentionBlock * max_rows();
    const TensorView memory = pass.workspace.f32({num_workers(pass.pool, num_items), elems});
    for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t i) {
      score_item(items[static_cast<std::size_t>(i)], q, weights, scores, memory.f32_row(worker));
    });
  }

  void score_item(const ScoreItem& item,
                  TensorView q,
                  TensorView weights,
                  TensorView scores,
                  float* memory) const {
    const std::int64_t num_rows = item.tokens.num_tokens * params_.num_heads;
    const std::int64_t width = (num_rows + 15) / 16 * 16;
    float* keys = memory;
    float* queries = keys + kAttentionBlock * params_.head_dim;
    float* products = queries + max_rows() * params_.head_dim;
    transpose_queries(q.f32_row(item.tokens.first_row), num_rows, queries, width);
    for (std::int64_t begin = item.begin; begin < item.end; begin += kAttentionBlock) {
      const std::int64_t count = std::min(kAttentionBlock, item.end - begin);
      read_keys(*item.tokens.sequence, begin, count, keys);
      kernels::cpu::kernels().math.product({.a = keys,
                                            .a_row = params_.head_dim,
                                            .b = queries,
                                            .ldb = width,
                                            .c = products,
                                            .ldc = width,
                                            .m = count,
                                            .n = width,
                                            .k = params_.head_dim});
      for (std::int64_t token = 0; token < item.tokens.num_tokens; ++token) {
        sum_heads(products + token * params_.num_heads, width, count,
                  weights.f32_row(item.tokens.first_row + token),
                  scores.f32_row(item.scores_row + token) + begin);
      }
    }
  }

  // A compressed key is in the row of the token that completed it.
  void read_keys(const SequenceSlice& sequence,
                 std::int64_t begin,
                 std::int64_t count,
                 float* keys) const {
    const std::int64_t rate = params_.compress_rate;
    if (rate == 1) {
      return kv_cache_.read_keys(
          sequence,
          {.begin = begin, .end = begin + count, .first_col = 0, .num_cols = params_.head_dim},
          keys);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = (begin + i + 1) * rate - 1;
      kv_cache_.read_keys(
          sequence, {.begin = row, .end = row + 1, .first_col = 0, .num_cols = params_.head_dim},
          keys + i * params_.head_dim);
    }
  }

  void transpose_queries(const float* q,
                         std::int64_t num_rows,
                         float* queries,
                         std::int64_t width) const {
    for (std::int64_t dim = 0; dim < params_.head_dim; ++dim) {
      float* to = queries + dim * width;
      for (std::int64_t row = 0; row < num_rows; ++row)
        to[row] = q[row * params_.head_dim + dim];
      std::fill(to + num_rows, to + width, 0.0F);
    }
  }

  // Positions after a token's own get scores that are not read.
  void sum_heads(const float* products,
                 std::int64_t stride,
                 std::int64_t count,
                 const float* weights,
                 float* scores) const {
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = 0.0F;
      for (std::int64_t head = 0; head < params_.num_heads; ++head)
        sum += weights[head] * std::max(products[i * stride + head], 0.0F);
      scores[i] = sum * params_.scale;
    }
  }

  std::string module_;
  IndexerParams params_;
  KvCache& kv_cache_;
  std::vector<float> norm_weight_;  // [head_dim]
  std::vector<float> norm_bias_;    // [head_dim]
};

}  // namespace

std::unique_ptr<IndexerCore> make_indexer_core(const BuildContext& context) {
  return std::make_unique<IndexerCpu>(context);
}

}  // namespace graft::ops::cpu
