// Attention modules for tests: operators with random weights, and a double-precision reference that
// computes a whole sequence at once.

#pragma once

#include <limits>

#include "graft/testing/ops.h"

namespace graft::ops::testing {

inline constexpr std::int64_t kHidden = 40;

// Rotates the first rotary_dim values of one head.
inline void rotate(const RopeParams& params, std::int64_t position, double* head) {
  const auto half = static_cast<std::int64_t>(params.inv_freq.size());
  for (std::int64_t i = 0; i < half; ++i) {
    const float inv_freq = params.inv_freq[static_cast<std::size_t>(i)];
    const auto angle = static_cast<double>(static_cast<float>(position) * inv_freq);
    double& a = head[params.interleaved ? 2 * i : i];
    double& b = head[params.interleaved ? 2 * i + 1 : i + half];
    const double rotated = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = rotated;
  }
}

inline RopeParams rope_params(std::int64_t rotary_dim, bool interleaved) {
  RopeParams params;
  params.rotary_dim = rotary_dim;
  params.interleaved = interleaved;
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotary_dim);
    params.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -exponent)));
  }
  return params;
}

struct PlainHead {
  std::vector<Doubles> queries;  // [positions] of key_dim
  std::vector<Doubles> keys;
  std::vector<Doubles> values;
  double sink = -std::numeric_limits<double>::infinity();  // its logit; -infinity: none
};

// The attention output of one head for the token at `position`.
inline Doubles attend_plainly(const PlainHead& head,
                              std::size_t position,
                              double scale,
                              std::int64_t window = 0) {
  const std::size_t seen = position + 1;
  const std::size_t first = window == 0 || seen < static_cast<std::size_t>(window)
                                ? 0
                                : seen - static_cast<std::size_t>(window);
  Doubles scores;
  for (std::size_t p = first; p < seen; ++p) {
    const Doubles& query = head.queries[position];
    scores.push_back(scale *
                     std::inner_product(query.begin(), query.end(), head.keys[p].begin(), 0.0));
  }
  scores.push_back(head.sink);  // a key without value
  const Doubles weights = softmax(scores);
  Doubles out(head.values[0].size());
  for (std::size_t p = first; p < seen; ++p) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] += weights[p - first] * head.values[p][i];
  }
  return out;
}

// Grouped-query attention of 6 heads of kDim values over 2 key-value heads.
template <std::int64_t kDim>
class GqaModelOf {
 public:
  static constexpr std::int64_t kHeads = 6;
  static constexpr std::int64_t kKvHeads = 2;
  static constexpr std::int64_t kHeadDim = kDim;
  static constexpr std::int64_t kKeySize = kKvHeads * kHeadDim;
  static constexpr std::int64_t kValueSize = kKeySize;

  GqaModelOf(bool qk_norm, std::int64_t window, const Kwargs& cache_kwargs, bool sinks = false)
      : params_{.num_heads = kHeads,
                .num_key_value_heads = kKvHeads,
                .head_dim = kHeadDim,
                .sliding_window = window,
                .scale = 0.3F,
                .qk_norm = qk_norm,
                .sinks = sinks},
        rope_(rope_params(12, false)) {
    Random random(3);
    q_proj_ = model_.add_linear("a.q_proj", kHeads * kHeadDim, kHidden, random);
    k_proj_ = model_.add_linear("a.k_proj", kKvHeads * kHeadDim, kHidden, random);
    v_proj_ = model_.add_linear("a.v_proj", kKvHeads * kHeadDim, kHidden, random);
    o_proj_ = model_.add_linear("a.o_proj", kHidden, kHeads * kHeadDim, random);
    q_norm_ = model_.add_norm("a.q_norm", kHeadDim, random);
    k_norm_ = model_.add_norm("a.k_norm", kHeadDim, random);
    sinks_ = model_.weights.add("a.sinks", {kHeads}, random.floats(kHeads, 4.0F));
    model_.add<Rope>("cpu.rope", "a.rotary_emb", rope_);
    cache = &model_.add<KvCache>("cpu.kv_cache", "a.kv_cache",
                                 KvCacheParams{.key_size = kKeySize, .value_size = kValueSize},
                                 cache_kwargs);
    attention = &model_.add<Attention>("cpu.attention", "a", params_);
  }

  // The outputs y of all positions of a sequence.
  Doubles plain(const std::vector<Floats>& inputs) const {
    Doubles results;
    std::vector<PlainHead> heads(kHeads);
    for (std::size_t h = 0; h < heads.size() && params_.sinks; ++h)
      heads[h].sink = static_cast<double>(sinks_[h]);
    for (std::size_t p = 0; p < inputs.size(); ++p) {
      append(inputs[p], static_cast<std::int64_t>(p), heads);
      Doubles all;
      for (const PlainHead& head : heads) {
        const Doubles out =
            attend_plainly(head, p, static_cast<double>(params_.scale), params_.sliding_window);
        all.insert(all.end(), out.begin(), out.end());
      }
      const Doubles y = times(o_proj_, all);
      results.insert(results.end(), y.begin(), y.end());
    }
    return results;
  }

  KvCache* cache = nullptr;
  Attention* attention = nullptr;

 private:
  Doubles head_of(const Doubles& row, std::int64_t head) const {
    return {row.begin() + head * kHeadDim, row.begin() + (head + 1) * kHeadDim};
  }

  void append(const Floats& input, std::int64_t position, std::vector<PlainHead>& heads) const {
    const Doubles x = widen(input);
    const Doubles q = times(q_proj_, x);
    const Doubles k = times(k_proj_, x);
    const Doubles v = times(v_proj_, x);
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const std::int64_t kv_head = h / (kHeads / kKvHeads);
      Doubles query = head_of(q, h);
      Doubles key = head_of(k, kv_head);
      if (params_.qk_norm) query = norm(q_norm_, query);
      if (params_.qk_norm) key = norm(k_norm_, key);
      rotate(rope_, position, query.data());
      rotate(rope_, position, key.data());
      PlainHead& head = heads[static_cast<std::size_t>(h)];
      head.queries.push_back(query);
      head.keys.push_back(key);
      head.values.push_back(head_of(v, kv_head));
    }
  }

  AttentionParams params_;
  RopeParams rope_;
  TestModel model_;
  Floats sinks_;
  Floats q_proj_, k_proj_, v_proj_, o_proj_, q_norm_, k_norm_;
};

using GqaModel = GqaModelOf<20>;      // not a multiple of vectors
using WideGqaModel = GqaModelOf<32>;  // a multiple of vectors and of quantized blocks

// Multi-head latent attention of 5 heads.
class MlaModel {
 public:
  static constexpr std::int64_t kHeads = 5;
  static constexpr std::int64_t kRank = 24;
  static constexpr std::int64_t kNope = 10;
  static constexpr std::int64_t kRope = 6;
  static constexpr std::int64_t kValue = 14;
  static constexpr std::int64_t kKeySize = kRank + kRope;
  static constexpr std::int64_t kValueSize = 0;

  MlaModel(std::int64_t q_lora_rank, const Kwargs& kwargs, const Kwargs& cache_kwargs)
      : params_{.num_heads = kHeads,
                .q_lora_rank = q_lora_rank,
                .kv_lora_rank = kRank,
                .qk_nope_head_dim = kNope,
                .qk_rope_head_dim = kRope,
                .v_head_dim = kValue,
                .scale = 0.25F},
        rope_(rope_params(kRope, true)) {
    Random random(4);
    const std::int64_t q_in = q_lora_rank == 0 ? kHidden : q_lora_rank;
    const std::string q_name = q_lora_rank == 0 ? "a.q_proj" : "a.q_b_proj";
    q_proj_ = model_.add_linear(q_name, kHeads * (kNope + kRope), q_in, random);
    if (q_lora_rank != 0) {
      q_a_proj_ = model_.add_linear("a.q_a_proj", q_lora_rank, kHidden, random);
      q_a_norm_ = model_.add_norm("a.q_a_layernorm", q_lora_rank, random);
    }
    kv_a_proj_ = model_.add_linear("a.kv_a_proj_with_mqa", kRank + kRope, kHidden, random);
    kv_a_norm_ = model_.add_norm("a.kv_a_layernorm", kRank, random);
    kv_b_proj_ = model_.add_linear("a.kv_b_proj", kHeads * (kNope + kValue), kRank, random);
    o_proj_ = model_.add_linear("a.o_proj", kHidden, kHeads * kValue, random);
    model_.add<Rope>("cpu.rope", "a.rotary_emb", rope_);
    cache = &model_.add<KvCache>("cpu.kv_cache", "a.kv_cache", KvCacheParams{.key_size = kKeySize},
                                 cache_kwargs);
    attention = &model_.add<Attention>("cpu.mla", "a", params_, kwargs);
  }

  Doubles plain(const std::vector<Floats>& inputs) const {
    Doubles results;
    std::vector<PlainHead> heads(kHeads);
    for (std::size_t p = 0; p < inputs.size(); ++p) {
      append(inputs[p], static_cast<std::int64_t>(p), heads);
      Doubles all;
      for (const PlainHead& head : heads) {
        const Doubles out = attend_plainly(head, p, static_cast<double>(params_.scale));
        all.insert(all.end(), out.begin(), out.end());
      }
      const Doubles y = times(o_proj_, all);
      results.insert(results.end(), y.begin(), y.end());
    }
    return results;
  }

  KvCache* cache = nullptr;
  Attention* attention = nullptr;

 private:
  void append(const Floats& input, std::int64_t position, std::vector<PlainHead>& heads) const {
    const Doubles x = widen(input);
    const Doubles q = times(q_proj_, q_a_proj_.empty() ? x : norm(q_a_norm_, times(q_a_proj_, x)));
    const Doubles compressed = times(kv_a_proj_, x);
    const Doubles latent = norm(kv_a_norm_, {compressed.begin(), compressed.begin() + kRank});
    Doubles shared_key(compressed.begin() + kRank, compressed.end());
    rotate(rope_, position, shared_key.data());
    const Doubles expanded = times(kv_b_proj_, latent);
    for (std::int64_t h = 0; h < kHeads; ++h) {
      PlainHead& head = heads[static_cast<std::size_t>(h)];
      const auto query = q.begin() + h * (kNope + kRope);
      head.queries.emplace_back(query, query + kNope + kRope);
      rotate(rope_, position, head.queries.back().data() + kNope);
      const auto own = expanded.begin() + h * (kNope + kValue);
      head.keys.emplace_back(own, own + kNope);
      head.keys.back().insert(head.keys.back().end(), shared_key.begin(), shared_key.end());
      head.values.emplace_back(own + kNope, own + kNope + kValue);
    }
  }

  MlaParams params_;
  RopeParams rope_;
  TestModel model_;
  Floats q_proj_, q_a_proj_, q_a_norm_, kv_a_proj_, kv_a_norm_, kv_b_proj_, o_proj_;
};

}  // namespace graft::ops::testing
