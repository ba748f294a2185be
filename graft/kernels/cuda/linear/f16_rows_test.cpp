#include "graft/testing/cuda/f16_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::F16TestRows;
using testing::Floats;
using testing::Random;

// Sizes that F16 does not have, alone and beside ordinary values.
Floats rows_of_all_sizes(std::int64_t rows, std::int64_t cols) {
  const std::vector<float> sizes = {1.0F, 1e6F, 1e-7F, 0.0F, 1e36F, 1e-39F, 1e-3F, 2e4F};
  Floats x = Random(17).floats(rows * cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col)
      x[static_cast<std::size_t>(row * cols + col)] *=
          sizes[static_cast<std::size_t>(row) % sizes.size()];
    if (row % 16 == 8) x[static_cast<std::size_t>(row * cols + row % cols)] = -1e6F;
  }
  return x;
}

class HalfRowsKernels : public testing::GpuTest {};

TEST_F(HalfRowsKernels, KeepTheSizeOfARow) {
  for (const std::int64_t cols : {1, 13, 64, 300, 1024, 2048, 5003}) {
    const std::int64_t rows = 21;
    const Floats x = rows_of_all_sizes(rows, cols + 3);
    const DeviceArray<float> x_data(x);
    const F16TestRows rounded({x_data.get(), cols + 3}, rows, cols);
    const std::vector<std::byte> bytes = rounded.memory.download();
    const auto* values = reinterpret_cast<const Half*>(bytes.data());
    const auto* scales = reinterpret_cast<const float*>(
        bytes.data() + (reinterpret_cast<std::byte*>(rounded.f16.scales) - rounded.memory.get()));
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* from = x.data() + row * (cols + 3);
      float largest = 0;
      for (std::int64_t col = 0; col < cols; ++col)
        largest = std::max(largest, std::abs(from[col]));
      const bool as_it_is = largest == 0 || (largest >= 0x1p-4F && largest < 0x1p14F);
      int exponent = 0;
      EXPECT_EQ(std::frexp(scales[row], &exponent), 0.5F) << row;
      EXPECT_EQ(scales[row] == 1.0F, as_it_is) << largest;
      for (std::int64_t col = 0; col < cols; ++col) {
        const double got =
            static_cast<double>(testing::f16_value(values[row * cols + col])) * scales[row];
        EXPECT_NEAR(got, from[col], largest * 0x1p-11) << row << " " << col;
      }
    }
  }
}

TEST_F(HalfRowsKernels, ProductsOfAllSizes) {
  const std::int64_t rows = 35;
  const std::int64_t in = 264;
  const std::int64_t out = 19;
  const testing::TestMatrix weights = testing::random_matrix(DType::F16, out, in, 18);
  const Floats x = rows_of_all_sizes(rows, in);
  const DeviceArray<std::byte> data(weights.bytes);
  const DeviceArray<float> x_data(x);
  const DeviceArray<float> y(static_cast<std::size_t>(rows * out));
  const LinearBatch product =
      one_linear({.dtype = DType::F16, .data = data.get(), .rows = out, .cols = in}, nullptr,
                 {x_data.get(), in}, {y.get(), out}, rows);
  const F16TestRows rounded(product.x, rows, in);
  gemm(product, nullptr);
  const Floats want = y.download();
  gemm_f16(product, rounded.f16, nullptr);
  const Floats got = y.download();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<std::size_t>(row * out);
    float largest = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(out); ++i)
      largest = std::max(largest, std::abs(want[i]));
    for (std::size_t i = first; i < first + static_cast<std::size_t>(out); ++i)
      EXPECT_NEAR(got[i], want[i], 2e-3F * largest) << row;
  }
  // Each row alone: the same bits.
  for (std::int64_t row = 0; row < rows; ++row) {
    const LinearBatch alone = one_linear(product.stack, nullptr, {x_data.get() + row * in, in},
                                         {y.get() + row * out, out}, 1);
    const F16TestRows rounded_row(alone.x, 1, in);
    gemm_f16(alone, rounded_row.f16, nullptr);
  }
  EXPECT_EQ(y.download(), got);
}

// What is no number stays so, in its row alone; weights beyond F16 become its largest.
TEST_F(HalfRowsKernels, WhatIsNoNumberStaysSo) {
  const std::int64_t in = 48;
  Floats x(static_cast<std::size_t>(3 * in), 0.5F);
  x[5] = NAN;
  x[static_cast<std::size_t>(in) + 6] = -INFINITY;
  const Floats weights(static_cast<std::size_t>(in), 1e30F);
  const DeviceArray<float> x_data(x);
  const DeviceArray<float> weight_data(weights);
  const DeviceArray<float> y(3);
  const LinearBatch product =
      one_linear({.dtype = DType::F32, .data = weight_data.get(), .rows = 1, .cols = in}, nullptr,
                 {x_data.get(), in}, {y.get(), 1}, 3);
  const F16TestRows rounded(product.x, 3, in);
  gemm_f16(product, rounded.f16, nullptr);
  const Floats got = y.download();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], -INFINITY);
  EXPECT_EQ(got[2], 65504.0F * 0.5F * static_cast<float>(in));
}

}  // namespace
}  // namespace graft::kernels::cuda
