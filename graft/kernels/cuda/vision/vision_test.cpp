#include "graft/kernels/cuda/vision/vision.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

class Vision : public testing::GpuTest {};

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

TEST_F(Vision, LayerNormHasMeanAndBias) {
  for (const std::int64_t cols : {1, 30, 1024, 1152}) {
    constexpr std::int64_t kRows = 5;
    Random random(7);
    Floats x = random.floats(kRows * cols);
    for (float& value : x)
      value += 3.0F;
    const Floats weight = random.floats(cols);
    const Floats bias = random.floats(cols);
    std::vector<double> want(x.size());
    for (std::int64_t row = 0; row < kRows; ++row) {
      double mean = 0;
      double squares = 0;
      for (std::int64_t i = 0; i < cols; ++i)
        mean += x[at(row * cols + i)] / static_cast<double>(cols);
      for (std::int64_t i = 0; i < cols; ++i)
        squares += std::pow(x[at(row * cols + i)] - mean, 2) / static_cast<double>(cols);
      for (std::int64_t i = 0; i < cols; ++i)
        want[at(row * cols + i)] =
            (x[at(row * cols + i)] - mean) / std::sqrt(squares + 1e-5) * weight[at(i)] +
            bias[at(i)];
    }
    const DeviceArray<float> in(x);
    const DeviceArray<float> w(weight);
    const DeviceArray<float> b(bias);
    const DeviceArray<float> out(x.size());
    layer_norm({in.get(), cols}, {w.get(), b.get()}, {out.get(), cols}, kRows, cols, 1e-5F,
               nullptr);
    EXPECT_LT(relative_error(out.download(), want), 1e-5) << cols;
  }
}

TEST_F(Vision, ActivationsFollowTheirFormulas) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kCols = 300;
  const Floats x = Random(3).floats(kRows * kCols, 3.0F);
  const double root = std::sqrt(2.0 / std::acos(-1.0));
  for (const auto activation :
       {VisionActivation::QuickGelu, VisionActivation::Gelu, VisionActivation::GeluTanh}) {
    std::vector<double> want;
    for (const double v : x) {
      const double quick = v / (1 + std::exp(-1.702 * v));
      const double gelu = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
      const double tanh = 0.5 * v * (1 + std::tanh(root * (v + 0.044715 * v * v * v)));
      want.push_back(activation == VisionActivation::QuickGelu ? quick
                     : activation == VisionActivation::Gelu    ? gelu
                                                               : tanh);
    }
    const DeviceArray<float> values(x);
    vision_activate({values.get(), kCols}, activation, kRows, kCols, nullptr);
    EXPECT_LT(relative_error(values.download(), want), 1e-5);
  }
}

struct Shape {
  std::int64_t tiles;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t dim;
};

// The output of one query of one head.
std::vector<double> attended(const Shape& shape,
                             const Floats& q,
                             const Floats& k,
                             const Floats& v,
                             std::int64_t query,
                             std::int64_t head) {
  const std::int64_t cols = shape.heads * shape.dim;
  const std::int64_t first = query / shape.tokens * shape.tokens;
  std::vector<double> scores;
  for (std::int64_t key = first; key < first + shape.tokens; ++key) {
    double score = 0;
    for (std::int64_t i = head * shape.dim; i < (head + 1) * shape.dim; ++i)
      score += static_cast<double>(q[at(query * cols + i)]) * k[at(key * cols + i)];
    scores.push_back(score / std::sqrt(static_cast<double>(shape.dim)));
  }
  const double max = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores)
    sum += score = std::exp(score - max);
  std::vector<double> out(at(shape.dim));
  for (std::int64_t key = 0; key < shape.tokens; ++key) {
    for (std::int64_t i = 0; i < shape.dim; ++i)
      out[at(i)] += scores[at(key)] / sum * v[at((first + key) * cols + head * shape.dim + i)];
  }
  return out;
}

TEST_F(Vision, AttentionIsOverTheTokensOfATile) {
  for (const Shape shape : {Shape{1, 577, 2, 64}, Shape{3, 17, 4, 8}, Shape{2, 130, 1, 80},
                            Shape{1, 64, 3, 128}, Shape{2, 1, 1, 3}}) {
    const std::int64_t cols = shape.heads * shape.dim;
    const std::int64_t rows = shape.tiles * shape.tokens;
    Random random(11);
    const Floats q = random.floats(rows * cols, 2.0F);
    const Floats k = random.floats(rows * cols, 2.0F);
    const Floats v = random.floats(rows * cols);
    std::vector<double> want;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::vector<double> part = attended(shape, q, k, v, row, head);
        want.insert(want.end(), part.begin(), part.end());
      }
    }
    const DeviceArray<float> queries(q);
    const DeviceArray<float> keys(k);
    const DeviceArray<float> values(v);
    const DeviceArray<float> out(at(rows * cols));
    vision_attend({.q = {queries.get(), cols},
                   .k = {keys.get(), cols},
                   .v = {values.get(), cols},
                   .out = {out.get(), cols},
                   .num_tiles = shape.tiles,
                   .num_tokens = shape.tokens,
                   .num_heads = shape.heads,
                   .head_dim = shape.dim},
                  nullptr);
    EXPECT_LT(relative_error(out.download(), want), 1e-5) << shape.tokens << " x " << shape.dim;
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
