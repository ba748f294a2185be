#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/ops/cpu/expert_activation.h"
#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kExpertHidden = 64;
constexpr std::int64_t kExpertInner = 96;
constexpr std::int64_t kNumExperts = 7;
constexpr std::int64_t kExpertTopK = 3;

// Whether all experts have one packable dtype, or two dtypes that cannot be packed together.
enum class Types : std::uint8_t { Packed, Mixed };

// Router, experts, a shared expert and its gate.
class MoeModel {
 public:
  explicit MoeModel(bool shared, Types types = Types::Mixed) : types_(types) {
    Random random(5);
    gate_ = model_.weights.add("m.gate.weight", {kNumExperts, kExpertHidden},
                               random.floats(kNumExperts * kExpertHidden));
    add_experts(random);
    model_.add<Router>("cpu.router", "m.gate",
                       RouterParams{.hidden_size = kExpertHidden,
                                    .num_experts = kNumExperts,
                                    .top_k = kExpertTopK,
                                    .normalize = true});
    experts = &model_.add<Experts>("cpu.experts", "m.experts", kParams);
    if (shared) add_shared(random);
    moe = &model_.add<Mlp>("cpu.moe", "m", NoParams{});
  }

  Doubles expert(std::int64_t number, const Doubles& x) const {
    const auto& [gate, up, down] = weights_[static_cast<std::size_t>(number)];
    return gated_mlp(gate, up, down, x);
  }

  Doubles plain(const Floats& input) const {
    const Doubles x = widen(input);
    const Doubles scores = softmax(times(gate_, x));
    std::vector<std::int64_t> order(kNumExperts);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, std::greater<>(),
                      [&](std::int64_t e) { return scores[static_cast<std::size_t>(e)]; });
    double sum = 0;
    for (std::size_t k = 0; k < kExpertTopK; ++k)
      sum += scores[static_cast<std::size_t>(order[k])];
    Doubles y(kExpertHidden);
    for (std::size_t k = 0; k < kExpertTopK; ++k)
      add(scores[static_cast<std::size_t>(order[k])] / sum, expert(order[k], x), y);
    if (shared_[0].empty()) return y;
    const double gate = 1.0 / (1.0 + std::exp(-times(shared_gate_, x)[0]));
    add(gate, gated_mlp(shared_[0], shared_[1], shared_[2], x), y);
    return y;
  }

  static void add(double factor, const Doubles& x, Doubles& y) {
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] += factor * x[i];
  }

  Experts* experts = nullptr;
  Mlp* moe = nullptr;

 private:
  static constexpr ExpertsParams kParams = {.num_experts = kNumExperts,
                                            .top_k = kExpertTopK,
                                            .hidden_size = kExpertHidden,
                                            .intermediate_size = kExpertInner};

  void add_experts(Random& random) {
    for (std::int64_t e = 0; e < kNumExperts; ++e) {
      const std::string name = str("m.experts.", e);
      const bool packed = types_ == Types::Packed;
      const DType type = packed || e % 2 == 0 ? DType::Q8_0 : DType::F32;
      const DType up_type = packed ? DType::Q8_0 : DType::BF16;
      weights_.push_back(
          {model_.weights.add(name + ".gate_proj.weight", {kExpertInner, kExpertHidden},
                              random.floats(kExpertInner * kExpertHidden, 0.2F), type),
           model_.weights.add(name + ".up_proj.weight", {kExpertInner, kExpertHidden},
                              random.floats(kExpertInner * kExpertHidden, 0.2F), up_type),
           model_.weights.add(name + ".down_proj.weight", {kExpertHidden, kExpertInner},
                              random.floats(kExpertInner * kExpertHidden, 0.2F), type)});
    }
  }

  void add_shared(Random& random) {
    shared_ = {model_.add_linear("m.shared_expert.gate_proj", kExpertInner, kExpertHidden, random),
               model_.add_linear("m.shared_expert.up_proj", kExpertInner, kExpertHidden, random),
               model_.add_linear("m.shared_expert.down_proj", kExpertHidden, kExpertInner, random)};
    model_.add<Mlp>("cpu.mlp", "m.shared_expert",
                    MlpParams{.hidden_size = kExpertHidden, .intermediate_size = kExpertInner});
    shared_gate_ = model_.add_linear("m.shared_expert_gate", 1, kExpertHidden, random);
  }

  Types types_;
  TestModel model_;
  Floats gate_;
  std::vector<std::array<Floats, 3>> weights_;
  std::array<Floats, 3> shared_;
  Floats shared_gate_;
};

TEST(ExpertsCpu, AddsExpertsInRoutingOrder) {
  MoeModel model(false);
  ThreadPool pool(2);
  Workspace workspace;
  const Batch batch;
  Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
  Random random;
  Floats x = random.floats(2 * kExpertHidden);
  std::vector<std::int32_t> ids = {6, 0, 3, 3, 1, 0};
  Floats weights = {0.5F, 0.25F, -1.0F, 2.0F, 0.0F, 1.0F};
  Floats y(2 * kExpertHidden);
  model.experts->forward(view(x, 2, kExpertHidden),
                         {.expert_ids = {ids.data(), DType::I32, {2, kExpertTopK}},
                          .weights = view(weights, 2, kExpertTopK)},
                         view(y, 2, kExpertHidden), pass);
  for (std::size_t t = 0; t < 2; ++t) {
    const auto from = x.begin() + static_cast<std::ptrdiff_t>(t) * kExpertHidden;
    Doubles want(kExpertHidden);
    for (std::size_t k = 0; k < kExpertTopK; ++k) {
      MoeModel::add(weights[t * kExpertTopK + k],
                    model.expert(ids[t * kExpertTopK + k], {from, from + kExpertHidden}), want);
    }
    const auto got = y.begin() + static_cast<std::ptrdiff_t>(t) * kExpertHidden;
    EXPECT_LT(relative_error(Floats(got, got + kExpertHidden), want), 1e-5);
  }
}

// As in tables of tokens. Alone, a token is computed as in a batch.
TEST(ExpertsCpu, AnExpertMayBeNamedTwice) {
  for (const Types types : {Types::Mixed, Types::Packed}) {
    MoeModel model(false, types);
    ThreadPool pool(2);
    Workspace workspace;
    const Batch batch;
    Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
    const auto forward = [&](std::int64_t rows) {
      Floats x;
      Floats weights;
      for (std::int64_t row = 0; row < rows; ++row) {
        const Floats values = Random(6).floats(kExpertHidden);
        x.insert(x.end(), values.begin(), values.end());
        weights.insert(weights.end(), {0.5F, 0.25F, -1.0F});
      }
      std::vector<std::int32_t> ids(weights.size(), 3);
      Floats y(x.size());
      model.experts->forward(view(x, rows, kExpertHidden),
                             {.expert_ids = {ids.data(), DType::I32, {rows, kExpertTopK}},
                              .weights = view(weights, rows, kExpertTopK)},
                             view(y, rows, kExpertHidden), pass);
      return Floats(y.begin(), y.begin() + kExpertHidden);
    };
    EXPECT_EQ(forward(1), forward(2));
  }
}

// Entries that another device computes, and rows that are padding.
TEST(ExpertsCpu, SkipsNegativeIds) {
  for (const Types types : {Types::Mixed, Types::Packed}) {
    MoeModel model(false, types);
    ThreadPool pool(2);
    Workspace workspace;
    const Batch batch;
    Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
    Random random;
    Floats x = random.floats(2 * kExpertHidden);
    const auto run = [&](std::vector<std::int32_t> ids, Floats weights) {
      Floats y(2 * kExpertHidden, 7.0F);
      model.experts->forward(view(x, 2, kExpertHidden),
                             {.expert_ids = {ids.data(), DType::I32, {2, kExpertTopK}},
                              .weights = view(weights, 2, kExpertTopK)},
                             view(y, 2, kExpertHidden), pass);
      return y;
    };
    // A weight of 0 adds a zero of either sign, so the sums are equal.
    EXPECT_EQ(run({6, -1, 3, -1, 1, 0}, {0.5F, 0.25F, -1.0F, 2.0F, 0.5F, 1.0F}),
              run({6, 2, 3, 5, 1, 0}, {0.5F, 0.0F, -1.0F, 0.0F, 0.5F, 1.0F}));
    EXPECT_EQ(run({-1, -1, -1, -1, -1, -1}, Floats(6, 1.0F)), Floats(2 * kExpertHidden));
  }
}

TEST(ExpertsCpu, FailsWhenExpertsAreMissing) {
  TestModel model;
  EXPECT_THROW(model.add<Experts>("cpu.experts", "e", ExpertsParams{.num_experts = 2}), Error);
}

TEST(MoeCpu, MatchesTheFormulaWithAndWithoutSharedExpert) {
  for (const bool shared : {false, true}) {
    MoeModel model(shared);
    ScheduleRunner runner(kExpertHidden, kExpertHidden);
    const auto results = runner.run({{{0, 20}}}, 2, [&](TensorView x, TensorView y, Pass& pass) {
      model.moe->forward(x, y, pass);
    });
    for (std::int64_t p = 0; p < 20; ++p) {
      const auto from = results.at(0).begin() + p * kExpertHidden;
      EXPECT_LT(relative_error(Floats(from, from + kExpertHidden), model.plain(runner.input(0, p))),
                1e-5);
    }
  }
}

// Activations are quantized to int8 (steps of 1/127 of the max of 32 values) twice.
TEST(MoeCpu, RepackedExpertsAreWithinInt8Error) {
  MoeModel model(false, Types::Packed);
  for (const std::int64_t num_tokens : {1, 20, 500}) {
    ScheduleRunner runner(kExpertHidden, kExpertHidden);
    const auto results =
        runner.run({{{0, num_tokens}}}, 2,
                   [&](TensorView x, TensorView y, Pass& pass) { model.moe->forward(x, y, pass); });
    for (std::int64_t p = 0; p < num_tokens; ++p) {
      const auto from = results.at(0).begin() + p * kExpertHidden;
      EXPECT_LT(relative_error(Floats(from, from + kExpertHidden), model.plain(runner.input(0, p))),
                0.04);
    }
  }
}

TEST(MoeCpu, IsInvariantToBatchAndThreads) {
  for (const Types types : {Types::Mixed, Types::Packed}) {
    MoeModel model(true, types);
    const auto forward = [&](TensorView x, TensorView y, Pass& pass) {
      model.moe->forward(x, y, pass);
    };
    ScheduleRunner runner(kExpertHidden, kExpertHidden);
    const auto want = runner.run(schedules()[0], 1, forward);
    for (const Schedule& schedule : schedules()) {
      for (const std::size_t num_threads : {1, 2, 3, 4}) {
        EXPECT_TRUE(same_bits(runner.run(schedule, num_threads, forward), want))
            << num_threads << " threads";
      }
    }
  }
}

double limited_silu(double gate, double up, double limit) {
  return silu(std::min(gate, limit)) * std::clamp(up, -limit, limit);
}

TEST(ExpertsCpu, LimitTheFactorsOfSilu) {
  const ExpertsParams params = {.intermediate_size = 3, .swiglu_limit = 10.0F, .limits_silu = true};
  Floats gate = {20.0F, -30.0F, 1.0F};
  Floats up = {15.0F, -15.0F, 2.0F};
  const Floats gates = gate;
  const Floats ups = up;
  ExpertActivation(params).apply({.count = 3}, gate.data(), up.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    EXPECT_NEAR(gate[i],
                limited_silu(static_cast<double>(gates[i]), static_cast<double>(ups[i]), 10.0),
                1e-4);
  }
}

TEST(MlpCpu, LimitsTheFactorsOfSilu) {
  constexpr std::int64_t kIn = 20;
  constexpr std::int64_t kInner = 12;
  TestModel model;
  Random random;
  const Floats gate = model.add_linear("m.gate_proj", kInner, kIn, random);
  const Floats up = model.add_linear("m.up_proj", kInner, kIn, random);
  const Floats down = model.add_linear("m.down_proj", kIn, kInner, random);
  auto& mlp = model.add<Mlp>(
      "cpu.mlp", "m", MlpParams{.hidden_size = kIn, .intermediate_size = kInner, .limit = 0.25F});
  ScheduleRunner runner(kIn, kIn);
  const Results results = runner.run(
      {{{0, 1}}}, 1, [&](TensorView x, TensorView y, Pass& pass) { mlp.forward(x, y, pass); });
  const Doubles x = widen(runner.input(0, 0));
  Doubles inner = times(gate, x);
  const Doubles ups = times(up, x);
  for (std::size_t i = 0; i < inner.size(); ++i)
    inner[i] = limited_silu(inner[i], ups[i], 0.25);
  EXPECT_LT(relative_error(results.at(0), times(down, inner)), 1e-5);
}

}  // namespace
}  // namespace graft::ops::cpu
