// Hyper-connections against a plain computation in double precision.

#include "graft/kernels/cuda/compressed/hyper_connection.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;
using Doubles = std::vector<double>;

class HyperKernels : public testing::GpuTest {};

double squashed(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

struct PlainWeights {
  Floats fn;
  Floats base;
  Floats scale;
};

// The logits of a row, with scales and biases.
Doubles logits_of(const HyperShape& shape, const PlainWeights& weights, const Doubles& x) {
  double squares = 0;
  for (const double value : x)
    squares += value * value;
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + shape.norm_eps);
  Doubles logits;
  const auto mult = static_cast<std::size_t>(shape.mult);
  for (std::size_t i = 0; i < weights.base.size(); ++i) {
    double sum = 0;
    for (std::size_t c = 0; c < x.size(); ++c)
      sum += weights.fn[i * x.size() + c] * x[c];
    const std::size_t part = i < mult ? 0 : i < 2 * mult ? 1 : 2;
    logits.push_back(sum * factor * weights.scale[part] + weights.base[i]);
  }
  return logits;
}

void scale_lines(std::vector<Doubles>& matrix, bool is_columns, double eps) {
  for (std::size_t a = 0; a < matrix.size(); ++a) {
    double sum = eps;
    for (std::size_t b = 0; b < matrix.size(); ++b)
      sum += is_columns ? matrix[b][a] : matrix[a][b];
    for (std::size_t b = 0; b < matrix.size(); ++b)
      (is_columns ? matrix[b][a] : matrix[a][b]) /= sum;
  }
}

std::vector<Doubles> matrix_of(const HyperShape& shape, const double* logits) {
  const auto mult = static_cast<std::size_t>(shape.mult);
  std::vector<Doubles> matrix;
  for (std::size_t row = 0; row < mult; ++row) {
    Doubles values(logits + row * mult, logits + (row + 1) * mult);
    const double max = *std::ranges::max_element(values);
    double sum = 0;
    for (double& value : values)
      sum += value = std::exp(value - max);
    for (double& value : values)
      value = value / sum + shape.eps;
    matrix.push_back(values);
  }
  scale_lines(matrix, true, shape.eps);
  for (std::int64_t i = 1; i < shape.sinkhorn_iters; ++i) {
    scale_lines(matrix, false, shape.eps);
    scale_lines(matrix, true, shape.eps);
  }
  return matrix;
}

struct PlainResult {
  Doubles y;
  Doubles streams;  // after a block that returns its input times 2
};

void connect_row(const HyperShape& shape,
                 const PlainWeights& weights,
                 const Doubles& x,
                 PlainResult& out) {
  const auto mult = static_cast<std::size_t>(shape.mult);
  const auto hidden = static_cast<std::size_t>(shape.hidden);
  const Doubles logits = logits_of(shape, weights, x);
  Doubles y(hidden);
  for (std::size_t s = 0; s < mult; ++s) {
    for (std::size_t i = 0; i < hidden; ++i)
      y[i] += (squashed(logits[s]) + shape.eps) * x[s * hidden + i];
  }
  out.y.insert(out.y.end(), y.begin(), y.end());
  if (shape.is_head) return;
  const std::vector<Doubles> matrix = matrix_of(shape, logits.data() + 2 * mult);
  for (std::size_t to = 0; to < mult; ++to) {
    for (std::size_t i = 0; i < hidden; ++i) {
      double sum = 2 * squashed(logits[mult + to]) * 2 * y[i];
      for (std::size_t from = 0; from < mult; ++from)
        sum += matrix[from][to] * x[from * hidden + i];
      out.streams.push_back(sum);
    }
  }
}

struct Connected {
  Floats y;
  Floats streams;
};

Connected connect(const HyperShape& shape,
                  const PlainWeights& weights,
                  const Floats& x,
                  std::int64_t rows) {
  const DeviceArray<float> fn(weights.fn);
  const DeviceArray<float> base(weights.base);
  const DeviceArray<float> scale(weights.scale);
  const DeviceArray<float> streams(x);
  const DeviceArray<float> y(static_cast<std::size_t>(rows * shape.hidden));
  const std::int64_t mix_cols = shape.mult + shape.mult * shape.mult;
  const DeviceArray<float> mix(static_cast<std::size_t>(rows * mix_cols));
  const DeviceArray<std::byte> scratch(collapse_streams_bytes(shape, rows));
  const std::int64_t cols = shape.mult * shape.hidden;
  collapse_streams(shape, {.fn = fn.get(), .base = base.get(), .scale = scale.get()},
                   {streams.get(), cols}, {y.get(), shape.hidden},
                   shape.is_head ? Rows{} : Rows{mix.get(), mix_cols}, rows, scratch.get(),
                   nullptr);
  Connected result = {.y = y.download(), .streams = {}};
  if (shape.is_head) return result;
  Floats twice = result.y;
  for (float& value : twice)
    value *= 2;
  const DeviceArray<float> block(twice);
  add_to_streams(shape, {block.get(), shape.hidden}, {mix.get(), mix_cols}, {streams.get(), cols},
                 rows, nullptr);
  result.streams = streams.download();
  return result;
}

PlainWeights random_weights(const HyperShape& shape) {
  Random random(static_cast<unsigned>(shape.hidden));
  const std::int64_t cols = shape.mult * shape.hidden;
  return {
      .fn = random.floats(shape.num_logits() * cols, 1.0F / std::sqrt(static_cast<float>(cols))),
      .base = random.floats(shape.num_logits()),
      .scale = random.floats(shape.is_head ? 1 : 3)};
}

TEST_F(HyperKernels, MatchAPlainComputation) {
  for (const std::int64_t mult : {1, 2, 3, 4, 5, 16}) {
    for (const std::int64_t hidden : {1, 33, 256, 1000}) {
      for (const bool is_head : {false, true}) {
        const HyperShape shape = {.hidden = hidden,
                                  .mult = mult,
                                  .sinkhorn_iters = 20,
                                  .eps = 1e-6F,
                                  .norm_eps = 1e-6F,
                                  .is_head = is_head};
        constexpr std::int64_t kRows = 6;  // more than a tile of rows
        const PlainWeights weights = random_weights(shape);
        const Floats x = Random(9).floats(kRows * mult * hidden, 3.0F);
        PlainResult want;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const auto first = x.begin() + row * mult * hidden;
          connect_row(shape, weights, Doubles(first, first + mult * hidden), want);
        }
        const Connected got = connect(shape, weights, x, kRows);
        EXPECT_LT(relative_error(got.y, want.y), 1e-5) << mult << ' ' << hidden << ' ' << is_head;
        if (is_head) continue;
        EXPECT_LT(relative_error(got.streams, want.streams), 2e-5) << mult << ' ' << hidden;
      }
    }
  }
}

TEST_F(HyperKernels, RowsDoNotDependOnOthers) {
  const HyperShape shape = {
      .hidden = 300, .mult = 4, .sinkhorn_iters = 20, .eps = 1e-6F, .norm_eps = 1e-6F};
  const PlainWeights weights = random_weights(shape);
  const Floats x = Random(10).floats(7 * 1200);
  const Connected all = connect(shape, weights, x, 7);
  for (std::int64_t row = 0; row < 7; ++row) {
    const Connected one =
        connect(shape, weights, Floats(x.begin() + row * 1200, x.begin() + (row + 1) * 1200), 1);
    EXPECT_EQ(one.y, Floats(all.y.begin() + row * 300, all.y.begin() + (row + 1) * 300));
    EXPECT_EQ(one.streams,
              Floats(all.streams.begin() + row * 1200, all.streams.begin() + (row + 1) * 1200));
  }
}

TEST_F(HyperKernels, ReplicateCopies) {
  const HyperShape shape = {.hidden = 300, .mult = 3};
  const Floats x = Random(11).floats(2 * 300);
  const DeviceArray<float> from(x);
  const DeviceArray<float> to(2 * 900);
  replicate_streams(shape, {from.get(), 300}, {to.get(), 900}, 2, nullptr);
  Floats want;
  for (int row = 0; row < 2; ++row) {
    for (int s = 0; s < 3; ++s)
      want.insert(want.end(), x.begin() + row * 300, x.begin() + (row + 1) * 300);
  }
  EXPECT_EQ(to.download(), want);
}

}  // namespace
}  // namespace graft::kernels::cuda
