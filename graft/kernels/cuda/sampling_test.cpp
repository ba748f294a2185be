#include "graft/kernels/cuda/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;

class SamplingKernels : public testing::GpuTest {};

std::vector<std::int32_t> by_logit(const float* row, std::int64_t size) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return row[a] > row[b]; });
  return order;
}

// has_ties: rounds the logits to multiples of 4.
Floats random_logits(std::int64_t rows, std::int64_t stride, bool has_ties) {
  Floats logits = Random(61).floats(rows * stride, 5.0F);
  if (has_ties) {
    for (float& logit : logits)
      logit = std::round(logit / 4.0F) * 4.0F;
  }
  return logits;
}

void expect_top_k(const Floats& logits,
                  std::int64_t stride,
                  std::int64_t vocab,
                  std::int64_t count) {
  const std::int64_t rows = static_cast<std::int64_t>(logits.size()) / stride;
  const DeviceArray<float> data(logits);
  const DeviceArray<std::int32_t> tokens(static_cast<std::size_t>(rows * count));
  const DeviceArray<float> values(static_cast<std::size_t>(rows * count));
  top_k_logits({data.get(), stride}, rows, vocab, count, {tokens.get(), values.get()}, nullptr);
  const std::vector<std::int32_t> got = tokens.download();
  const Floats got_values = values.download();
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* begin = logits.data() + row * stride;
    std::vector<std::int32_t> want = by_logit(begin, vocab);
    want.resize(static_cast<std::size_t>(count), -1);
    const std::vector<std::int32_t> row_tokens(got.begin() + row * count,
                                               got.begin() + (row + 1) * count);
    EXPECT_EQ(row_tokens, want) << "row " << row;
    for (std::int64_t i = 0; i < std::min(count, vocab); ++i)
      EXPECT_EQ(got_values[static_cast<std::size_t>(row * count + i)],
                begin[want[static_cast<std::size_t>(i)]]);
  }
}

TEST_F(SamplingKernels, TopK) {
  for (const bool has_ties : {false, true}) {
    expect_top_k(random_logits(3, 5003, has_ties), 5003, 5000, 40);
    expect_top_k(random_logits(2, 1500, has_ties), 1500, 1500, 1024);
    expect_top_k(random_logits(2, 7, has_ties), 7, 7, 10);
    expect_top_k(random_logits(1, 1024, has_ties), 1024, 1, 1);
  }
}

TEST_F(SamplingKernels, TiesAndInfinities) {
  expect_top_k(Floats(3000, -1.5F), 3000, 3000, 100);
  Floats logits = random_logits(1, 2000, false);
  logits[5] = 0.0F;
  logits[3] = -0.0F;
  std::fill(logits.begin() + 100, logits.end(), -INFINITY);
  expect_top_k(logits, 2000, 2000, 300);
}

TEST_F(SamplingKernels, Argmax) {
  Floats logits = random_logits(4, 3001, true);
  std::fill_n(logits.begin() + 2 * 3001, 3001, -INFINITY);
  expect_top_k(logits, 3001, 3000, 1);
}

// The first entry tells the caller that the row contains NaN.
TEST_F(SamplingKernels, NanSortsFirst) {
  for (const std::int64_t count : {1, 40}) {
    Floats logits = random_logits(1, 3000, true);
    logits[17] = -NAN;
    logits[20] = NAN;
    const DeviceArray<float> data(logits);
    const DeviceArray<std::int32_t> tokens(static_cast<std::size_t>(count));
    const DeviceArray<float> values(static_cast<std::size_t>(count));
    top_k_logits({data.get(), 3000}, 1, 3000, count, {tokens.get(), values.get()}, nullptr);
    EXPECT_EQ(tokens.download()[0], 17);
    EXPECT_TRUE(std::isnan(values.download()[0]));
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
