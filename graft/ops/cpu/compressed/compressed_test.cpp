// DeepSeek-V4's attention against a plain computation in double precision.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kV4Size = 24;  // of hidden states
constexpr std::int64_t kV4Heads = 4;
constexpr std::int64_t kV4Dim = 16;
constexpr std::int64_t kV4Rotated = 4;
constexpr std::int64_t kV4Rank = 12;
constexpr std::int64_t kV4Window = 5;  // tokens of the window
constexpr std::int64_t kV4Groups = 2;
constexpr std::int64_t kV4GroupRank = 6;
constexpr std::int64_t kV4IndexHeads = 3;
constexpr std::int64_t kV4IndexDim = 8;

RopeParams rotation(double sign) {
  RopeParams rope;
  rope.rotary_dim = kV4Rotated;
  rope.interleaved = true;
  for (const double frequency : {0.9, 0.07})
    rope.inv_freq.push_back(static_cast<float>(sign * frequency));
  return rope;
}

// Rotates the last values of x.
void rotate(Doubles& x, std::int64_t position, double sign) {
  const RopeParams rope = rotation(sign);
  double* pairs = x.data() + x.size() - kV4Rotated;
  for (std::size_t i = 0; i < rope.inv_freq.size(); ++i) {
    const double angle = static_cast<double>(static_cast<float>(position) * rope.inv_freq[i]);
    const double first = pairs[2 * i];
    const double second = pairs[2 * i + 1];
    pairs[2 * i] = first * std::cos(angle) - second * std::sin(angle);
    pairs[2 * i + 1] = second * std::cos(angle) + first * std::sin(angle);
  }
}

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

Doubles part_of(const Doubles& x, std::int64_t begin, std::int64_t size) {
  return {x.begin() + begin, x.begin() + begin + size};
}

// A compressor of the module `name`, and its entries computed plainly.
class PlainCompressor {
 public:
  PlainCompressor(TestModel& model, std::string name, const CompressorParams& params)
      : params_(params) {
    Random random(static_cast<unsigned>(params.head_dim));
    const std::int64_t width = params.row_size();
    kv_proj_ = model.add_linear(name + ".kv_proj", width, kV4Size, random);
    gate_proj_ = model.add_linear(name + ".gate_proj", width, kV4Size, random);
    kv_norm_ = model.add_norm(name + ".kv_norm", params.head_dim, random);
    bias_ = model.weights.add(name + ".position_bias", {params.rate, width},
                              random.floats(params.rate * width));
    model.add<Rope>("cpu.rope", name + ".rotary_emb", rotation(1));
    windows = &model.add<KvCache>(
        "cpu.kv_cache", name + ".window_cache",
        KvCacheParams{.key_size = width, .value_size = width, .head_size = params.head_dim},
        {{"dtype", "f32"}});
    entries = &model.add<KvCache>("cpu.kv_cache", name + ".kv_cache",
                                  KvCacheParams{.key_size = params.head_dim}, {{"dtype", "f32"}});
  }

  // The entry of the tokens [begin, begin + rate).
  Doubles entry(const std::vector<Floats>& inputs, std::int64_t begin) const {
    const std::int64_t own = params_.overlaps ? params_.head_dim : 0;
    std::vector<std::pair<Doubles, Doubles>> rows;  // values and logits
    if (params_.overlaps && begin > 0) add_rows(inputs, begin - params_.rate, 0, rows);
    add_rows(inputs, begin, own, rows);
    Doubles sum(static_cast<std::size_t>(params_.head_dim));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      Doubles logits;
      for (const auto& [values, gates] : rows)
        logits.push_back(gates[i]);
      const Doubles weights = softmax(logits);
      for (std::size_t row = 0; row < rows.size(); ++row)
        sum[i] += weights[row] * rows[row].first[i];
    }
    Doubles result = norm(kv_norm_, sum);
    rotate(result, begin, 1);
    return result;
  }

  KvCache* windows = nullptr;
  KvCache* entries = nullptr;

 private:
  void add_rows(const std::vector<Floats>& inputs,
                std::int64_t begin,
                std::int64_t first_col,
                std::vector<std::pair<Doubles, Doubles>>& rows) const {
    for (std::int64_t i = 0; i < params_.rate; ++i) {
      const Doubles x = widen(inputs[static_cast<std::size_t>(begin + i)]);
      Doubles gates = times(gate_proj_, x);
      for (std::size_t c = 0; c < gates.size(); ++c) {
        gates[c] +=
            static_cast<double>(bias_[static_cast<std::size_t>(i * params_.row_size()) + c]);
      }
      rows.emplace_back(part_of(times(kv_proj_, x), first_col, params_.head_dim),
                        part_of(gates, first_col, params_.head_dim));
    }
  }

  CompressorParams params_;
  Floats kv_proj_;
  Floats gate_proj_;
  Floats kv_norm_;
  Floats bias_;
};

// rate 0: the window alone; top_k above 0: with an indexer.
class CompressedModel {
 public:
  CompressedModel(std::int64_t rate, std::int64_t top_k) : rate_(rate), top_k_(top_k), random_(5) {
    add_attention();
    if (rate > 0) add_compressor();
    attention = &model_.add<Attention>("cpu.compressed_attention", "a",
                                       CompressedAttentionParams{.num_heads = kV4Heads,
                                                                 .head_dim = kV4Dim,
                                                                 .rope_dim = kV4Rotated,
                                                                 .q_lora_rank = kV4Rank,
                                                                 .sliding_window = kV4Window,
                                                                 .output_groups = kV4Groups,
                                                                 .output_lora_rank = kV4GroupRank,
                                                                 .scale = 0.4F,
                                                                 .compress_rate = rate,
                                                                 .index_top_k = top_k});
  }

  void allocate() {
    for (KvCache* cache : caches_)
      cache->allocate(ScheduleRunner::kNumBlocks, 4);
  }

  Doubles plain(const std::vector<Floats>& inputs) const {
    Doubles results;
    std::vector<Doubles> keys;
    std::vector<Doubles> entries;
    std::vector<Doubles> index_keys;
    for (std::int64_t p = 0; p < static_cast<std::int64_t>(inputs.size()); ++p) {
      const Doubles x = widen(inputs[static_cast<std::size_t>(p)]);
      Doubles key = norm(kv_norm_, times(kv_proj_, x));
      rotate(key, p, 1);
      keys.push_back(std::move(key));
      if (rate_ > 0 && (p + 1) % rate_ == 0) {
        entries.push_back(compressor_[0].entry(inputs, p + 1 - rate_));
        if (top_k_ > 0) index_keys.push_back(compressor_[1].entry(inputs, p + 1 - rate_));
      }
      const Doubles low = norm(q_a_norm_, times(q_a_proj_, x));
      std::vector<Doubles> seen;
      for (const std::size_t i : selected(x, low, p, index_keys, entries.size()))
        seen.push_back(entries[i]);
      for (std::int64_t i = std::max<std::int64_t>(0, p + 1 - kV4Window); i <= p; ++i)
        seen.push_back(keys[static_cast<std::size_t>(i)]);
      const Doubles y = output(low, p, seen);
      results.insert(results.end(), y.begin(), y.end());
    }
    return results;
  }

  Attention* attention = nullptr;

 private:
  void add_attention() {
    q_a_proj_ = model_.add_linear("a.q_a_proj", kV4Rank, kV4Size, random_);
    q_a_norm_ = model_.add_norm("a.q_a_norm", kV4Rank, random_);
    q_b_proj_ = model_.add_linear("a.q_b_proj", kV4Heads * kV4Dim, kV4Rank, random_);
    model_.add<Norm>("cpu.rms_norm", "a.q_b_norm",
                     NormParams{.size = kV4Dim, .eps = 1e-6, .has_weight = false});
    kv_proj_ = model_.add_linear("a.kv_proj", kV4Dim, kV4Size, random_);
    kv_norm_ = model_.add_norm("a.kv_norm", kV4Dim, random_);
    constexpr std::int64_t kV4GroupSize = kV4Heads * kV4Dim / kV4Groups;
    o_a_proj_ = model_.weights.add("a.o_a_proj.weight", {kV4Groups * kV4GroupRank, kV4GroupSize},
                                   random_.floats(kV4Groups * kV4GroupRank * kV4GroupSize, 0.3F));
    model_.add<Linear>("cpu.grouped_linear", "a.o_a_proj",
                       LinearParams{.in_features = kV4GroupSize,
                                    .out_features = kV4Groups * kV4GroupRank,
                                    .groups = kV4Groups});
    o_b_proj_ = model_.add_linear("a.o_b_proj", kV4Size, kV4Groups * kV4GroupRank, random_);
    model_.add<Rope>("cpu.rope", "a.rotary_emb", rotation(1));
    model_.add<Rope>("cpu.rope", "a.inverse_rotary_emb", rotation(-1));
    sinks_ = model_.weights.add("a.sinks", {kV4Heads}, random_.floats(kV4Heads, 2.0F));
    caches_.push_back(&model_.add<KvCache>("cpu.kv_cache", "a.kv_cache",
                                           KvCacheParams{.key_size = kV4Dim}, {{"dtype", "f32"}}));
  }

  void add_compressor() {
    const CompressorParams params = {.hidden_size = kV4Size,
                                     .head_dim = kV4Dim,
                                     .rope_dim = kV4Rotated,
                                     .rate = rate_,
                                     .overlaps = top_k_ > 0,
                                     .index_top_k = top_k_};
    CompressorParams index_params = params;
    index_params.head_dim = kV4IndexDim;
    compressor_.emplace_back(model_, "a.compressor", params);
    if (top_k_ > 0) {
      const std::string indexer = "a.compressor.indexer";
      compressor_.emplace_back(model_, indexer, index_params);
      index_q_ =
          model_.add_linear(indexer + ".q_b_proj", kV4IndexHeads * kV4IndexDim, kV4Rank, random_);
      index_weights_ =
          model_.add_linear(indexer + ".scorer.weights_proj", kV4IndexHeads, kV4Size, random_);
      model_.add<Indexer>("cpu.compressed_indexer", indexer,
                          IndexerParams{.hidden_size = kV4Size,
                                        .q_lora_rank = kV4Rank,
                                        .num_heads = kV4IndexHeads,
                                        .head_dim = kV4IndexDim,
                                        .top_k = top_k_,
                                        .scale = 0.2F,
                                        .compress_rate = rate_,
                                        .rope_dim = kV4Rotated});
    }
    model_.add<Compressor>("cpu.compressor", "a.compressor", params);
    for (const PlainCompressor& made : compressor_) {
      caches_.push_back(made.windows);
      caches_.push_back(made.entries);
    }
  }

  // The entries that a token sees: of equal scores the earlier.
  std::vector<std::size_t> selected(const Doubles& x,
                                    const Doubles& low,
                                    std::int64_t position,
                                    const std::vector<Doubles>& keys,
                                    std::size_t count) const {
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i)
      order[i] = i;
    if (top_k_ == 0) return order;
    const Doubles weights = times(index_weights_, x);
    const Doubles q = times(index_q_, low);
    Doubles scores(count);
    for (std::int64_t head = 0; head < kV4IndexHeads; ++head) {
      Doubles rotated = part_of(q, head * kV4IndexDim, kV4IndexDim);
      rotate(rotated, position, 1);
      for (std::size_t i = 0; i < count; ++i) {
        scores[i] += weights[static_cast<std::size_t>(head)] * std::max(0.0, dot(rotated, keys[i]));
      }
    }
    std::ranges::stable_sort(order, [&](auto a, auto b) { return scores[a] > scores[b]; });
    order.resize(std::min(count, static_cast<std::size_t>(top_k_)));
    return order;
  }

  Doubles output(const Doubles& low,
                 std::int64_t position,
                 const std::vector<Doubles>& seen) const {
    const Doubles q = times(q_b_proj_, low);
    const Floats ones(static_cast<std::size_t>(kV4Dim), 1.0F);
    Doubles heads;
    for (std::int64_t head = 0; head < kV4Heads; ++head) {
      Doubles query = norm(ones, part_of(q, head * kV4Dim, kV4Dim));
      rotate(query, position, 1);
      Doubles scores;
      for (const Doubles& key : seen)
        scores.push_back(static_cast<double>(0.4F) * dot(query, key));
      scores.push_back(static_cast<double>(sinks_[static_cast<std::size_t>(head)]));
      const Doubles weights = softmax(scores);
      Doubles out(static_cast<std::size_t>(kV4Dim));
      for (std::size_t k = 0; k < seen.size(); ++k) {
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] += weights[k] * seen[k][i];
      }
      rotate(out, position, -1);
      heads.insert(heads.end(), out.begin(), out.end());
    }
    Doubles groups;
    const auto size = static_cast<std::int64_t>(heads.size()) / kV4Groups;
    for (std::int64_t g = 0; g < kV4Groups; ++g) {
      const Doubles all = times(o_a_proj_, part_of(heads, g * size, size));
      const Doubles own = part_of(all, g * kV4GroupRank, kV4GroupRank);
      groups.insert(groups.end(), own.begin(), own.end());
    }
    return times(o_b_proj_, groups);
  }

  std::int64_t rate_;
  std::int64_t top_k_;
  Random random_;
  TestModel model_;
  std::vector<KvCache*> caches_;
  std::vector<PlainCompressor> compressor_;  // of the attention, then of the indexer
  Floats q_a_proj_, q_a_norm_, q_b_proj_, kv_proj_, kv_norm_, o_a_proj_, o_b_proj_, sinks_;
  Floats index_q_, index_weights_;
};

struct CompressedCase {
  std::int64_t rate = 0;
  std::int64_t top_k = 0;
};

class CompressedAttention : public ::testing::TestWithParam<CompressedCase> {};

TEST_P(CompressedAttention, MatchesAPlainComputation) {
  CompressedModel model(GetParam().rate, GetParam().top_k);
  model.allocate();
  ScheduleRunner runner(kV4Size, kV4Size);
  const auto attend = [&](TensorView x, TensorView y, Pass& pass) {
    model.attention->forward(x, y, pass);
  };
  for (const auto& [sequence, rows] : runner.run(schedules()[0], 2, attend)) {
    std::vector<Floats> inputs;
    for (std::int64_t p = 0; p < static_cast<std::int64_t>(rows.size()) / kV4Size; ++p)
      inputs.push_back(runner.input(sequence, p));
    EXPECT_LT(relative_error(rows, model.plain(inputs)), 1e-4) << "sequence " << sequence;
  }
}

TEST_P(CompressedAttention, IsBitIdenticalInAnySchedule) {
  CompressedModel model(GetParam().rate, GetParam().top_k);
  ScheduleRunner runner(kV4Size, kV4Size);
  const auto attend = [&](TensorView x, TensorView y, Pass& pass) {
    model.attention->forward(x, y, pass);
  };
  model.allocate();
  const Results want = runner.run(schedules()[0], 1, attend);
  for (const Schedule& schedule : schedules()) {
    model.allocate();
    EXPECT_TRUE(same_bits(runner.run(schedule, 3, attend), want));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         CompressedAttention,
                         ::testing::Values(CompressedCase{},
                                           CompressedCase{.rate = 16},
                                           CompressedCase{.rate = 4, .top_k = 6},
                                           CompressedCase{.rate = 3, .top_k = 64}),
                         [](const auto& test) {
                           return str("Rate", test.param.rate, "Top", test.param.top_k);
                         });

}  // namespace
}  // namespace graft::ops::cpu
