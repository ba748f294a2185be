// An indexer that computes its scores plainly and selects positions in the order of PyTorch's topk.
// The golden references need it: many scores are exactly 0 (no head has a positive product), and
// which of them PyTorch selects follows from std::nth_element over all positions of the forward
// pass, the masked ones included.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/ops/primitives.h"
#include "graft/ops/registry.h"
#include "graft/ops/weight.h"
#include "graft/testing/ops.h"

namespace graft::ops::testing {

class ReferenceIndexer final : public Indexer {
 public:
  explicit ReferenceIndexer(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<IndexerParams>()),
        wq_b_(*context.child_as<Linear>("wq_b")),
        wk_(*context.child_as<Linear>("wk")),
        weights_proj_(*context.child_as<Linear>("weights_proj")),
        rotary_emb_(*context.child_as<Rope>("rotary_emb")),
        kv_cache_(*context.child_as<KvCache>("kv_cache")) {}

  void load(WeightProvider& weights) override {
    norm_weight_ = load_vector(weights, module_ + ".k_norm.weight", params_.head_dim);
    norm_bias_ = load_vector(weights, module_ + ".k_norm.bias", params_.head_dim);
  }

  void forward(const Activation& x,
               TensorView q_latents,
               TensorView selected,
               Pass& pass) override {
    const Workspace::Scope scope(pass.workspace);
    const TensorView q = pass.workspace.f32({x.rows(), params_.num_heads * params_.head_dim});
    const TensorView k = pass.workspace.f32({x.rows(), params_.head_dim});
    const TensorView weights = pass.workspace.f32({x.rows(), params_.num_heads});
    wq_b_.forward(q_latents, q, pass);
    wk_.forward(x, k, pass);
    weights_proj_.forward(x, weights, pass);
    for (std::int64_t row = 0; row < k.rows(); ++row)
      norm(k.f32_row(row));
    rotary_emb_.forward(q, {.num_heads = params_.num_heads, .head_dim = params_.head_dim}, pass);
    rotary_emb_.forward(k, {.num_heads = 1, .head_dim = params_.head_dim}, pass);
    kv_cache_.write(k, {}, pass);
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
  using Entry = std::pair<double, std::int32_t>;  // score and position

  void norm(float* key) const {
    const auto size = static_cast<std::size_t>(params_.head_dim);
    const std::vector<double> values(key, key + size);
    double mean = 0.0;
    for (const double value : values)
      mean += value / static_cast<double>(size);
    double variance = 0.0;
    for (const double value : values)
      variance += (value - mean) * (value - mean) / static_cast<double>(size);
    for (std::size_t i = 0; i < size; ++i) {
      const double normed = (values[i] - mean) / std::sqrt(variance + params_.key_norm_eps);
      key[i] = static_cast<float>(normed * static_cast<double>(norm_weight_[i]) +
                                  static_cast<double>(norm_bias_[i]));
    }
  }

  double score(const float* q, const float* weights, const float* key) const {
    double sum = 0.0;
    for (std::int64_t head = 0; head < params_.num_heads; ++head) {
      double product = 0.0;
      for (std::int64_t i = 0; i < params_.head_dim; ++i) {
        product +=
            static_cast<double>(q[head * params_.head_dim + i]) * static_cast<double>(key[i]);
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
    const std::int64_t num_keys = sequence.context_len;
    Floats keys(static_cast<std::size_t>(num_keys * params_.head_dim));
    kv_cache_.read_keys(sequence, {.begin = 0, .end = num_keys, .num_cols = params_.head_dim},
                        keys.data());
    std::vector<Entry> entries;
    for (std::int64_t i = 0; i < num_keys; ++i) {
      const double value = i > position ? -std::numeric_limits<double>::infinity()
                                        : score(q, weights, keys.data() + i * params_.head_dim);
      entries.emplace_back(value, static_cast<std::int32_t>(i));
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(params_.top_k, num_keys));
    std::nth_element(entries.begin(), entries.begin() + count - 1, entries.end(),
                     [](const Entry& a, const Entry& b) { return a.first > b.first; });
    entries.resize(static_cast<std::size_t>(count));
    std::erase_if(entries, [&](const Entry& entry) { return entry.second > position; });
    std::ranges::sort(entries, {}, &Entry::second);
    std::fill_n(out, params_.top_k, -1);
    for (std::size_t i = 0; i < entries.size(); ++i)
      out[i] = entries[i].second;
  }

  std::string module_;
  IndexerParams params_;
  Linear& wq_b_;
  Linear& wk_;
  Linear& weights_proj_;
  Rope& rotary_emb_;
  KvCache& kv_cache_;
  Floats norm_weight_;
  Floats norm_bias_;
};

// Adds "reference.indexer".
inline void add_reference_indexer(Registry& registry) {
  registry.add({.name = "reference.indexer",
                .role = Role::Indexer,
                .summary = "indexer in the order of PyTorch",
                .make = [](const BuildContext& context) -> std::unique_ptr<Operator> {
                  return std::make_unique<ReferenceIndexer>(context);
                }});
}

inline constexpr const char* kReferenceIndexerRule =
    "- match: {role: indexer}\n  replace: {class: reference.indexer}\n";

}  // namespace graft::ops::testing
