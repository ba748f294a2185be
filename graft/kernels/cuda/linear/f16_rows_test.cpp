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

// Rows beyond the range of F16, and single outliers in ordinary rows.
Floats rows_of_all_magnitudes(std::int64_t rows, std::int64_t cols) {
  const std::vector<float> magnitudes = {1.0F, 1e6F, 1e-7F, 0.0F, 1e36F, 1e-39F, 1e-3F, 2e4F};
  Floats x = Random(17).floats(rows * cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col)
      x[static_cast<std::size_t>(row * cols + col)] *=
          magnitudes[static_cast<std::size_t>(row) % magnitudes.size()];
    if (row % 16 == 8) x[static_cast<std::size_t>(row * cols + row % cols)] = -1e6F;
  }
  return x;
}

class F16RowsKernels : public testing::GpuTest {};

TEST_F(F16RowsKernels, ScalesRowsIntoRange) {
  for (const std::int64_t cols : {1, 13, 64, 300, 1024, 2048, 5003}) {
    const std::int64_t rows = 21;
    const Floats x = rows_of_all_magnitudes(rows, cols + 3);
    const DeviceArray<float> x_data(x);
    const F16TestRows f16_rows({x_data.get(), cols + 3}, rows, cols);
    const std::vector<std::byte> bytes = f16_rows.memory.download();
    const auto* values = reinterpret_cast<const Half*>(bytes.data());
    const auto* scales = reinterpret_cast<const float*>(
        bytes.data() +
        (reinterpret_cast<std::byte*>(f16_rows.view.scales) - f16_rows.memory.get()));
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* from = x.data() + row * (cols + 3);
      float max_abs = 0;
      for (std::int64_t col = 0; col < cols; ++col)
        max_abs = std::max(max_abs, std::abs(from[col]));
      const bool is_unscaled = max_abs == 0 || (max_abs >= 0x1p-4F && max_abs < 0x1p14F);
      int exponent = 0;
      EXPECT_EQ(std::frexp(scales[row], &exponent), 0.5F) << row;
      EXPECT_EQ(scales[row] == 1.0F, is_unscaled) << max_abs;
      for (std::int64_t col = 0; col < cols; ++col) {
        const double got =
            static_cast<double>(testing::f16_value(values[row * cols + col])) * scales[row];
        EXPECT_NEAR(got, from[col], max_abs * 0x1p-11) << row << " " << col;
      }
    }
  }
}

TEST_F(F16RowsKernels, GemmOfAllMagnitudes) {
  const std::int64_t rows = 35;
  const std::int64_t in = 264;
  const std::int64_t out = 19;
  const testing::TestMatrix weights = testing::random_matrix(DType::F16, out, in, 18);
  const Floats x = rows_of_all_magnitudes(rows, in);
  const DeviceArray<std::byte> data(weights.bytes);
  const DeviceArray<float> x_data(x);
  const DeviceArray<float> y(static_cast<std::size_t>(rows * out));
  const LinearBatch product =
      one_linear({.dtype = DType::F16, .data = data.get(), .rows = out, .cols = in}, nullptr,
                 {x_data.get(), in}, {y.get(), out}, rows);
  const F16TestRows f16_rows(product.x, rows, in);
  gemm(product, nullptr);
  const Floats want = y.download();
  gemm_f16(product, f16_rows.view, nullptr);
  const Floats got = y.download();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<std::size_t>(row * out);
    float max_abs = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(out); ++i)
      max_abs = std::max(max_abs, std::abs(want[i]));
    for (std::size_t i = first; i < first + static_cast<std::size_t>(out); ++i)
      EXPECT_NEAR(got[i], want[i], 2e-3F * max_abs) << row;
  }
  // Every row alone gives the same bits.
  for (std::int64_t row = 0; row < rows; ++row) {
    const LinearBatch alone = one_linear(product.stack, nullptr, {x_data.get() + row * in, in},
                                         {y.get() + row * out, out}, 1);
    const F16TestRows f16_row(alone.x, 1, in);
    gemm_f16(alone, f16_row.view, nullptr);
  }
  EXPECT_EQ(y.download(), got);
}

// NaN and infinity stay within their row; weights beyond F16 become ±65504.
TEST_F(F16RowsKernels, NanStaysNan) {
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
  const F16TestRows f16_rows(product.x, 3, in);
  gemm_f16(product, f16_rows.view, nullptr);
  const Floats got = y.download();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], -INFINITY);
  EXPECT_EQ(got[2], 65504.0F * 0.5F * static_cast<float>(in));
}

}  // namespace
}  // namespace graft::kernels::cuda
