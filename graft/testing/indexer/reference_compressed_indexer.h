// An indexer of compressed entries that selects in the order of PyTorch's topk
// (reference_indexer.h): its scores are computed plainly, its keys are those of the module.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "graft/ops/modules/window_compressor.h"
#include "graft/ops/primitives.h"
#include "graft/ops/registry.h"
#include "graft/ops/weight.h"
#include "graft/testing/ops.h"

namespace graft::ops::testing {

class ReferenceCompressedIndexer final : public Indexer {
 public:
  explicit ReferenceCompressedIndexer(const BuildContext& context)
      : params_(context.params_as<IndexerParams>()),
        windows_({.hidden_size = params_.hidden_size,
                  .head_dim = params_.head_dim,
                  .rope_dim = params_.rope_dim,
                  .rate = params_.compress_rate,
                  .overlaps = true},
                 context),
        q_b_proj_(*context.child_as<Linear>("q_b_proj")),
        weights_proj_(*context.child_as<Linear>("scorer.weights_proj")),
        rotary_emb_(*context.child_as<Rope>("rotary_emb")),
        kv_cache_(*context.child_as<KvCache>("kv_cache")) {}

  void load(WeightProvider& weights) override { windows_.load(weights); }

  void forward(const Activation& x,
               TensorView q_latents,
               TensorView selected,
               Pass& pass) override {
    const Workspace::Scope scope(pass.workspace);
    windows_.forward(x, pass);
    const TensorView q = pass.workspace.f32({x.rows(), params_.num_heads * params_.head_dim});
    const TensorView weights = pass.workspace.f32({x.rows(), params_.num_heads});
    q_b_proj_.forward(q_latents, q, pass);
    weights_proj_.forward(x, weights, pass);
    rotary_emb_.forward(q,
                        {.num_heads = params_.num_heads,
                         .head_dim = params_.head_dim,
                         .offset = params_.head_dim - params_.rope_dim},
                        pass);
    for (const SequenceSlice& sequence : pass.batch.sequences) {
      for (std::int64_t i = 0; i < sequence.num_tokens; ++i) {
        const std::int64_t row = sequence.first_row + i;
        select(sequence, sequence.context_len - sequence.num_tokens + i, q.f32_row(row),
               weights.f32_row(row),
               static_cast<std::int32_t*>(selected.data) + row * params_.top_k);
      }
    }
  }

 private:
  using Entry = std::pair<double, std::int32_t>;  // score and index

  double score(const float* q, const float* weights, const Floats& key) const {
    double sum = 0.0;
    for (std::int64_t head = 0; head < params_.num_heads; ++head) {
      double product = 0.0;
      for (std::int64_t i = 0; i < params_.head_dim; ++i) {
        product += static_cast<double>(q[head * params_.head_dim + i]) *
                   static_cast<double>(key[static_cast<std::size_t>(i)]);
      }
      sum += static_cast<double>(weights[head]) * std::max(product, 0.0);
    }
    return sum * static_cast<double>(params_.scale);
  }

  void select(const SequenceSlice& sequence,
              std::int64_t position,
              const float* q,
              const float* weights,
              std::int32_t* out) const {
    std::fill_n(out, params_.top_k, -1);
    const std::int64_t num_entries = sequence.context_len / params_.compress_rate;
    const std::int64_t num_visible = (position + 1) / params_.compress_rate;
    if (num_entries == 0) return;
    std::vector<Entry> entries;
    Floats key(static_cast<std::size_t>(params_.head_dim));
    for (std::int64_t i = 0; i < num_entries; ++i) {
      const std::int64_t row = (i + 1) * params_.compress_rate - 1;
      kv_cache_.read_keys(sequence, {.begin = row, .end = row + 1, .num_cols = params_.head_dim},
                          key.data());
      entries.emplace_back(
          i >= num_visible ? -std::numeric_limits<double>::infinity() : score(q, weights, key),
          static_cast<std::int32_t>(i));
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(params_.top_k, num_entries));
    std::nth_element(entries.begin(), entries.begin() + count - 1, entries.end(),
                     [](const Entry& a, const Entry& b) { return a.first > b.first; });
    entries.resize(static_cast<std::size_t>(count));
    std::erase_if(entries, [&](const Entry& entry) { return entry.second >= num_visible; });
    std::ranges::sort(entries, {}, &Entry::second);
    for (std::size_t i = 0; i < entries.size(); ++i)
      out[i] = entries[i].second;
  }

  IndexerParams params_;
  WindowCompressor windows_;
  Linear& q_b_proj_;
  Linear& weights_proj_;
  Rope& rotary_emb_;
  KvCache& kv_cache_;
};

// Adds "reference.compressed_indexer".
inline void add_reference_compressed_indexer(Registry& registry) {
  registry.add({.name = "reference.compressed_indexer",
                .role = Role::Indexer,
                .summary = "indexer of compressed entries in the order of PyTorch",
                .make = [](const BuildContext& context) -> std::unique_ptr<Operator> {
                  return std::make_unique<ReferenceCompressedIndexer>(context);
                }});
}

inline constexpr const char* kReferenceCompressedIndexerRule =
    "- match: {role: indexer}\n  replace: {class: reference.compressed_indexer}\n";

}  // namespace graft::ops::testing
