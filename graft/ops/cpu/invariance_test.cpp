// Batch invariance of the row operators: the same tokens in other batches, chunks and numbers of
// threads give the same bits. Attention and experts are tested in their own files.

#include <gtest/gtest.h>

#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kInputs = 96;

void expect_same_bits(std::int64_t out, const RowFunction& function) {
  ScheduleRunner runner(kInputs, out);
  const auto want = runner.run(schedules()[0], 1, function);
  for (const Schedule& schedule : schedules()) {
    for (const std::size_t num_threads : {1, 2, 3, 4}) {
      EXPECT_TRUE(same_bits(runner.run(schedule, num_threads, function), want))
          << num_threads << " threads";
    }
  }
}

TEST(Invariance, Embedding) {
  TestModel model;
  Random random;
  model.weights.add("e.weight", {50, kInputs}, random.floats(50 * kInputs), DType::Q4_0);
  auto& op = model.add<Embedding>("cpu.embedding", "e",
                                  EmbeddingParams{.vocab_size = 50, .hidden_size = kInputs});
  // Token ids depend on sequence and position alone, as x does.
  expect_same_bits(kInputs, [&](TensorView /*x*/, TensorView y, Pass& pass) {
    op.forward(pass.batch.token_ids, y, pass);
  });
}

TEST(Invariance, Norm) {
  TestModel model;
  Random random;
  model.add_norm("n", kInputs, random);
  auto& op = model.add<Norm>("cpu.rms_norm", "n", NormParams{.size = kInputs});
  expect_same_bits(kInputs,
                   [&](TensorView x, TensorView y, Pass& pass) { op.forward(x, y, pass); });
}

TEST(Invariance, Linear) {
  for (const DType type : {DType::F32, DType::BF16, DType::F16, DType::Q8_0, DType::Q4_0,
                           DType::F8_E4M3, DType::F8_E5M2}) {
    TestModel model;
    Random random;
    constexpr std::int64_t kOut = 500;  // several blocks of rows
    model.weights.add("l.weight", {kOut, kInputs}, random.floats(kOut * kInputs), type);
    model.weights.add("l.bias", {kOut}, random.floats(kOut));
    auto& op =
        model.add<Linear>("cpu.linear", "l",
                          LinearParams{.in_features = kInputs, .out_features = kOut, .bias = true});
    expect_same_bits(kOut, [&](TensorView x, TensorView y, Pass& pass) { op.forward(x, y, pass); });
  }
}

TEST(Invariance, Rope) {
  TestModel model;
  RopeParams params;
  params.rotary_dim = 16;
  params.inv_freq = Floats(8, 0.1F);
  params.dynamic = true;
  params.factor = 4.0;
  params.max_position_embeddings = 30;
  auto& op = model.add<Rope>("cpu.rope", "r", params);
  expect_same_bits(kInputs, [&](TensorView x, TensorView y, Pass& pass) {
    std::copy_n(x.f32(), x.num_elems(), y.f32());
    op.forward(y, {.num_heads = 4, .head_dim = 24}, pass);
  });
}

TEST(Invariance, Router) {
  TestModel model;
  Random random;
  constexpr std::int64_t kTopK = 6;
  model.weights.add("g.weight", {64, kInputs}, random.floats(64 * kInputs));
  auto& op = model.add<Router>("cpu.router", "g",
                               RouterParams{.hidden_size = kInputs,
                                            .num_experts = 64,
                                            .top_k = kTopK,
                                            .scoring = RouterParams::Scoring::Sigmoid,
                                            .method = RouterParams::Method::NoauxTc,
                                            .num_groups = 8,
                                            .top_k_groups = 3,
                                            .normalize = true});
  expect_same_bits(2 * kTopK, [&](TensorView x, TensorView y, Pass& pass) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(x.rows() * kTopK));
    Floats weights(ids.size());
    op.forward(x, {{ids.data(), DType::I32, {x.rows(), kTopK}}, view(weights, x.rows(), kTopK)},
               pass);
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      std::copy_n(ids.begin() + row * kTopK, kTopK, y.f32_row(row));
      std::copy_n(weights.begin() + row * kTopK, kTopK, y.f32_row(row) + kTopK);
    }
  });
}

TEST(Invariance, Mlp) {
  TestModel model;
  Random random;
  model.add_linear("m.gate_proj", 130, kInputs, random);
  model.add_linear("m.up_proj", 130, kInputs, random);
  model.add_linear("m.down_proj", kInputs, 130, random);
  auto& op =
      model.add<Mlp>("cpu.mlp", "m", MlpParams{.hidden_size = kInputs, .intermediate_size = 130});
  expect_same_bits(kInputs,
                   [&](TensorView x, TensorView y, Pass& pass) { op.forward(x, y, pass); });
}

}  // namespace
}  // namespace graft::ops::cpu
