#include "graft/kernels/cuda/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "graft/kernels/cuda/test_device.cuh"

namespace graft::cuda {
namespace {

using testing::Device;
using testing::Floats;
using testing::Random;

class SamplingKernels : public testing::GpuTest {};

std::vector<std::int32_t> by_logit(const float* row, std::int64_t size) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return row[a] > row[b]; });
  return order;
}

// Rows of logits with a tail that belongs to nobody.
Floats random_logits(std::int64_t rows, std::int64_t stride, bool few_values) {
  Floats logits = Random(61).floats(rows * stride, 5.0F);
  if (few_values) {
    for (float& logit : logits)
      logit = std::round(logit / 4.0F) * 4.0F;
  }
  return logits;
}

void expect_candidates(const Floats& logits,
                       std::int64_t stride,
                       std::int64_t vocab,
                       std::int64_t count) {
  const std::int64_t rows = static_cast<std::int64_t>(logits.size()) / stride;
  const Device<float> data(logits);
  const Device<std::int32_t> tokens(static_cast<std::size_t>(rows * count));
  const Device<float> values(static_cast<std::size_t>(rows * count));
  const Device<float> max(static_cast<std::size_t>(rows));
  const Device<float> sum(static_cast<std::size_t>(rows));
  Floats temperatures(static_cast<std::size_t>(rows), 1.0F);
  temperatures.back() = 0.7F;
  const Device<float> temperature_data(temperatures);
  top_candidates({data.get(), stride}, temperature_data.get(), rows, vocab, count,
                 {tokens.get(), values.get(), max.get(), sum.get()}, nullptr);
  const std::vector<std::int32_t> got = tokens.take();
  const Floats got_values = values.take();
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* begin = logits.data() + row * stride;
    std::vector<std::int32_t> want = by_logit(begin, vocab);
    want.resize(static_cast<std::size_t>(count), -1);
    const std::vector<std::int32_t> row_tokens(got.begin() + row * count,
                                               got.begin() + (row + 1) * count);
    EXPECT_EQ(row_tokens, want) << "row " << row;
    double total = 0;
    for (std::int64_t i = 0; i < vocab; ++i)
      total += std::exp((static_cast<double>(begin[i]) - begin[want[0]]) /
                        static_cast<double>(temperatures[static_cast<std::size_t>(row)]));
    EXPECT_EQ(max.take()[static_cast<std::size_t>(row)], begin[want[0]]);
    EXPECT_NEAR(sum.take()[static_cast<std::size_t>(row)] / total, 1.0, 1e-5);
    for (std::int64_t i = 0; i < std::min(count, vocab); ++i)
      EXPECT_EQ(got_values[static_cast<std::size_t>(row * count + i)],
                begin[want[static_cast<std::size_t>(i)]]);
  }
}

TEST_F(SamplingKernels, Candidates) {
  for (const bool few_values : {false, true}) {
    expect_candidates(random_logits(3, 5003, few_values), 5003, 5000, 40);
    expect_candidates(random_logits(2, 1500, few_values), 1500, 1500, 1024);
    expect_candidates(random_logits(2, 7, few_values), 7, 7, 10);
    expect_candidates(random_logits(1, 1024, few_values), 1024, 1, 1);
  }
}

TEST_F(SamplingKernels, EqualsAndExtremes) {
  expect_candidates(Floats(3000, -1.5F), 3000, 3000, 100);
  Floats logits = random_logits(1, 2000, false);
  logits[5] = 0.0F;
  logits[3] = -0.0F;
  std::fill(logits.begin() + 100, logits.end(), -INFINITY);
  expect_candidates(logits, 2000, 2000, 300);
}

TEST_F(SamplingKernels, Argmax) {
  Floats logits = random_logits(4, 3001, true);
  logits[3001 + 17] = NAN;
  logits[3001 + 20] = NAN;
  std::fill_n(logits.begin() + 2 * 3001, 3001, -INFINITY);
  const Device<float> data(logits);
  const Device<std::int32_t> tokens(4);
  argmax({data.get(), 3001}, 4, 3000, tokens.get(), nullptr);
  const std::vector<std::int32_t> want = {by_logit(logits.data(), 3000)[0], 17, 0,
                                          by_logit(logits.data() + 3 * 3001, 3000)[0]};
  EXPECT_EQ(tokens.take(), want);
}

}  // namespace
}  // namespace graft::cuda
