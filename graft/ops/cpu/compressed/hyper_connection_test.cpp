// Hyper-connections against a plain computation in double precision.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kStreamSize = 24;
constexpr std::int64_t kV4Streams = 3;

// x[streams, size] after one connection around a block that returns its input times 2.
Doubles connect_plainly(const Floats& fn,
                        const Floats& base,
                        const Floats& scale,
                        const Doubles& x) {
  constexpr std::size_t kMult = kV4Streams;
  const auto size = x.size() / kMult;
  const Doubles logits = times(fn, norm(Floats(x.size(), 1.0F), x));
  const auto affine = [&](std::size_t i, std::size_t part) {
    return logits[i] * static_cast<double>(scale[part]) + static_cast<double>(base[i]);
  };
  const auto squash = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
  Doubles y(size);
  for (std::size_t s = 0; s < kMult; ++s) {
    for (std::size_t i = 0; i < size; ++i)
      y[i] += (squash(affine(s, 0)) + 1e-6) * x[s * size + i];
  }
  std::vector<Doubles> matrix;
  for (std::size_t row = 0; row < kMult; ++row) {
    Doubles values;
    for (std::size_t col = 0; col < kMult; ++col)
      values.push_back(affine(2 * kMult + row * kMult + col, 2));
    matrix.push_back(softmax(values));
    for (double& value : matrix.back())
      value += 1e-6;
  }
  for (int i = 0; i < 7; ++i) {  // columns, then rows and columns in turns
    for (std::size_t a = 0; a < kMult; ++a) {
      double sum = 1e-6;
      for (std::size_t b = 0; b < kMult; ++b)
        sum += i % 2 == 0 ? matrix[b][a] : matrix[a][b];
      for (std::size_t b = 0; b < kMult; ++b)
        (i % 2 == 0 ? matrix[b][a] : matrix[a][b]) /= sum;
    }
  }
  Doubles result(x.size());
  for (std::size_t to = 0; to < kMult; ++to) {
    for (std::size_t i = 0; i < size; ++i) {
      result[to * size + i] = 2 * squash(affine(kMult + to, 1)) * 2 * y[i];
      for (std::size_t from = 0; from < kMult; ++from)
        result[to * size + i] += matrix[from][to] * x[from * size + i];
    }
  }
  return result;
}

TEST(HyperConnection, MatchesAPlainComputation) {
  constexpr std::int64_t kMix = (2 + kV4Streams) * kV4Streams;
  constexpr std::int64_t kCols = kV4Streams * kStreamSize;
  TestModel model;
  Random random;
  const Floats fn = model.weights.add("h.fn", {kMix, kCols}, random.floats(kMix * kCols, 0.3F));
  const Floats base = model.weights.add("h.base", {kMix}, random.floats(kMix));
  const Floats scale = model.weights.add("h.scale", {3}, random.floats(3, 0.5F, 1.0F));
  auto& connection = model.add<HyperConnection>(
      "cpu.hyper_connection", "h",
      HyperConnectionParams{.hidden_size = kStreamSize, .mult = kV4Streams, .sinkhorn_iters = 4});
  ScheduleRunner runner(kCols, kCols);
  const auto connect = [&](TensorView x, TensorView y, Pass& pass) {
    std::copy_n(x.f32(), x.num_elems(), y.f32());
    const TensorView read = pass.workspace.f32({x.rows(), kStreamSize});
    const TensorView mix = pass.workspace.f32({x.rows(), kV4Streams + kV4Streams * kV4Streams});
    connection.collapse(y, read, mix, pass);
    for (std::int64_t i = 0; i < read.num_elems(); ++i)
      read.f32()[i] *= 2.0F;
    connection.add(read, mix, y, pass);
  };
  const Results results = runner.run(schedules()[0], 1, connect);
  for (std::int64_t p = 0; p < 9; ++p) {
    const Floats& rows = results.at(1);
    const Floats got(rows.begin() + p * kCols, rows.begin() + (p + 1) * kCols);
    const Doubles want = connect_plainly(fn, base, scale, widen(runner.input(1, p)));
    EXPECT_LT(relative_error(got, want), 1e-5) << p;
  }
  for (const Schedule& schedule : schedules())
    EXPECT_TRUE(same_bits(runner.run(schedule, 3, connect), results));
}

TEST(HyperConnection, StartsWithCopies) {
  TestModel model;
  Random random;
  model.weights.add("h.hc_fn", {2, 6}, random.floats(12));
  model.weights.add("h.hc_base", {2}, {0.0F, 0.0F});
  model.weights.add("h.hc_scale", {1}, {0.0F});
  auto& head = model.add<HyperConnection>(
      "cpu.hyper_connection", "h",
      HyperConnectionParams{.hidden_size = 3, .mult = 2, .eps = 1e-12, .is_head = true});
  ScheduleRunner runner(3, 3);
  const Results results = runner.run({{{0, 2}}}, 1, [&](TensorView x, TensorView y, Pass& pass) {
    const TensorView streams = pass.workspace.f32({x.rows(), 6});
    head.replicate(x, streams, pass);
    head.collapse(streams, y, {}, pass);  // both weights are sigmoid(0)
  });
  Floats want = runner.input(0, 0);
  const Floats second = runner.input(0, 1);
  want.insert(want.end(), second.begin(), second.end());
  EXPECT_LT(relative_error(results.at(0), want), 1e-6);
}

}  // namespace
}  // namespace graft::ops::cpu
