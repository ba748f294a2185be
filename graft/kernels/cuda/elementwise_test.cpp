#include "graft/kernels/cuda/elementwise.h"

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

class Elementwise : public testing::GpuTest {};

struct Size {
  std::int64_t rows;
  std::int64_t cols;
};
constexpr Size kSizes[] = {{1, 1}, {1, 4096}, {3, 7}, {17, 130}, {5, 8191}, {300, 64}};

std::size_t at(std::int64_t row, std::int64_t stride, std::int64_t col) {
  return static_cast<std::size_t>(row * stride + col);
}

Floats rms_norm_reference(const Floats& x, const Floats& weight, Size size, double eps) {
  Floats y(x.size());
  for (std::int64_t row = 0; row < size.rows; ++row) {
    double squares = 0;
    for (std::int64_t col = 0; col < size.cols; ++col)
      squares += std::pow(x[at(row, size.cols, col)], 2);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(size.cols) + eps);
    for (std::int64_t col = 0; col < size.cols; ++col) {
      const double value = x[at(row, size.cols, col)] * factor * weight[at(0, 0, col)];
      y[at(row, size.cols, col)] = static_cast<float>(value);
    }
  }
  return y;
}

TEST_F(Elementwise, RmsNorm) {
  Random random(1);
  for (const Size size : kSizes) {
    const Floats x = random.floats(size.rows * size.cols, 3.0F);
    const Floats weight = random.floats(size.cols);
    const Floats want = rms_norm_reference(x, weight, size, 1e-5);
    const DeviceArray<float> in(x);
    const DeviceArray<float> factors(weight);
    const DeviceArray<float> out(x.size());
    rms_norm({in.get(), size.cols}, factors.get(), {out.get(), size.cols}, size.rows, size.cols,
             1e-5F, nullptr);
    EXPECT_LT(relative_error(out.download(), want), 1e-6) << size.rows << " x " << size.cols;
    // In place gives the same bits.
    rms_norm({in.get(), size.cols}, factors.get(), {in.get(), size.cols}, size.rows, size.cols,
             1e-5F, nullptr);
    EXPECT_EQ(in.download(), out.download());
  }
}

// The largest size exceeds a thread's registers; the second stride prevents float4 loads.
TEST_F(Elementwise, AddRmsNormMatchesSeparateKernels) {
  Random random(7);
  for (const Size size :
       {Size{1, 1}, {1, 4096}, {3, 2048}, {2, 7168}, {17, 130}, {3, 128}, {2, 9000}}) {
    for (const std::int64_t stride : {size.cols, size.cols + 3}) {
      const Floats x = random.floats(size.rows * stride, 3.0F);
      const Floats residual = random.floats(size.rows * stride, 2.0F);
      const DeviceArray<float> factors(random.floats(size.cols));
      const DeviceArray<float> a(x);
      const DeviceArray<float> sum(x);
      const DeviceArray<float> b(residual);
      const DeviceArray<float> want(x.size());
      const DeviceArray<float> got(x.size());
      add({a.get(), stride}, {b.get(), stride}, {a.get(), stride}, size.rows, size.cols, nullptr);
      rms_norm({a.get(), stride}, factors.get(), {want.get(), size.cols}, size.rows, size.cols,
               1e-5F, nullptr);
      add_rms_norm({sum.get(), stride}, {b.get(), stride}, factors.get(), {got.get(), size.cols},
                   size.rows, size.cols, 1e-5F, nullptr);
      EXPECT_EQ(sum.download(), a.download());
      const Floats normalized = got.download();
      const Floats separate = want.download();
      const auto count = size.rows * size.cols;
      EXPECT_TRUE(std::equal(normalized.begin(), normalized.begin() + count, separate.begin()))
          << size.rows << " x " << size.cols << " of " << stride;
    }
  }
}

// The norm matches add_rms_norm and the int8 values match quantize_rows, bit for bit.
TEST_F(Elementwise, AddRmsNormQ8MatchesSeparateKernels) {
  for (const std::int64_t cols : {32, 96, 2048, 4096, 8192, 16384}) {
    const std::int64_t rows = 3;
    Random random(static_cast<unsigned>(cols));
    const Floats x = random.floats(rows * cols);
    const DeviceArray<float> residual(random.floats(rows * cols));
    const DeviceArray<float> factors(random.floats(cols));
    const auto size = q8_rows_bytes(rows, cols);
    const DeviceArray<std::byte> want_q8(size);
    const DeviceArray<std::byte> got_q8(size);
    const DeviceArray<float> a(x);
    const DeviceArray<float> b(x);
    const DeviceArray<float> want(x.size());
    const DeviceArray<float> got(x.size());
    add_rms_norm({a.get(), cols}, {residual.get(), cols}, factors.get(), {want.get(), cols}, rows,
                 cols, 1e-5F, nullptr);
    quantize_rows({want.get(), cols}, q8_rows_at(want_q8.get(), rows, cols), rows, cols, nullptr);
    add_rms_norm_q8({b.get(), cols}, {residual.get(), cols}, factors.get(), {got.get(), cols},
                    q8_rows_at(got_q8.get(), rows, cols),
                    {.rows = rows, .cols = cols, .eps = 1e-5F}, nullptr);
    EXPECT_EQ(b.download(), a.download());
    EXPECT_EQ(got.download(), want.download());
    EXPECT_EQ(got_q8.download(), want_q8.download()) << cols;
  }
}

// The bits do not depend on whether float4 loads are possible.
TEST_F(Elementwise, RmsNormOfUnalignedRows) {
  const std::int64_t cols = 1024;
  const Floats x = Random(8).floats(cols + 1);
  const DeviceArray<float> factors(Random(9).floats(cols));
  const DeviceArray<float> odd(x);
  const DeviceArray<float> even(Floats(x.begin() + 1, x.end()));
  rms_norm({odd.get() + 1, cols}, factors.get(), {odd.get() + 1, cols}, 1, cols, 1e-5F, nullptr);
  rms_norm({even.get(), cols}, factors.get(), {even.get(), cols}, 1, cols, 1e-5F, nullptr);
  const Floats got = odd.download();
  EXPECT_EQ(Floats(got.begin() + 1, got.end()), even.download());
}

// Norms the first 5 of 9 values of each row; the others stay unchanged.
TEST_F(Elementwise, RmsNormOfColumnRange) {
  Random random(2);
  const Floats x = random.floats(4 * 9);
  const Floats weight = random.floats(5);
  Floats columns;
  for (std::int64_t row = 0; row < 4; ++row)
    columns.insert(columns.end(), x.begin() + row * 9, x.begin() + row * 9 + 5);
  const Floats normalized = rms_norm_reference(columns, weight, {4, 5}, 1e-6);
  Floats want = x;
  for (std::int64_t row = 0; row < 4; ++row)
    std::copy_n(normalized.begin() + row * 5, 5, want.begin() + row * 9);
  const DeviceArray<float> in(x);
  const DeviceArray<float> factors(weight);
  rms_norm({in.get(), 9}, factors.get(), {in.get(), 9}, 4, 5, 1e-6F, nullptr);
  EXPECT_LT(relative_error(in.download(), want), 1e-6);
}

TEST_F(Elementwise, AddSiluMulAddGated) {
  Random random(3);
  for (const Size size : kSizes) {
    const std::int64_t count = size.rows * size.cols;
    Floats a = random.floats(count, 4.0F);
    a[0] = -200.0F;  // exp(200) overflows
    const Floats b = random.floats(count);
    const Floats gates = random.floats(size.rows, 2.0F);
    Floats sum(a.size());
    Floats gated(a.size());
    Floats gated_sum(a.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const double gate = gates[static_cast<std::size_t>(i / size.cols)];
      sum[index] = a[index] + b[index];
      gated[index] =
          static_cast<float>(a[index] / (1 + std::exp(-static_cast<double>(a[index]))) * b[index]);
      gated_sum[index] = static_cast<float>(a[index] + b[index] / (1 + std::exp(-gate)));
    }
    const DeviceArray<float> first(a);
    const DeviceArray<float> second(b);
    const DeviceArray<float> factors(gates);
    const DeviceArray<float> out(a.size());
    const ConstRows x = {first.get(), size.cols};
    const ConstRows y = {second.get(), size.cols};
    add(x, y, {out.get(), size.cols}, size.rows, size.cols, nullptr);
    EXPECT_EQ(out.download(), sum);
    silu_mul(x, y, {out.get(), size.cols}, size.rows, size.cols, nullptr);
    EXPECT_LT(relative_error(out.download(), gated), 1e-6);
    add_gated(factors.get(), y, {first.get(), size.cols}, size.rows, size.cols, nullptr);
    EXPECT_LT(relative_error(first.download(), gated_sum), 1e-6);
  }
}

// Gate and up side by side in one matrix; the result overwrites gate.
TEST_F(Elementwise, SiluMulInPlace) {
  const Floats x = Random(4).floats(3 * 20);
  const DeviceArray<float> in(x);
  silu_mul({in.get(), 20}, {in.get() + 10, 20}, {in.get(), 20}, 3, 10, nullptr);
  Floats want = x;
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t col = 0; col < 10; ++col) {
      const double gate = x[row * 20 + col];
      want[row * 20 + col] =
          static_cast<float>(gate / (1 + std::exp(-gate)) * x[row * 20 + 10 + col]);
    }
  }
  EXPECT_LT(relative_error(in.download(), want), 1e-6);
}

TEST_F(Elementwise, GeluMulAndScale) {
  const Floats x = Random(4).floats(3 * 20);
  const DeviceArray<float> in(x);
  gelu_mul({in.get(), 20}, {in.get() + 10, 20}, {in.get(), 20}, 3, 10, nullptr);
  scale({in.get(), 20}, 2.5F, 3, 10, nullptr);
  Floats want = x;
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t col = 0; col < 10; ++col) {
      const double gate = x[row * 20 + col];
      const double z = 0.79788456080286536 * (gate + 0.044715 * gate * gate * gate);
      want[row * 20 + col] =
          static_cast<float>(2.5 * 0.5 * gate * (1 + std::tanh(z)) * x[row * 20 + 10 + col]);
    }
  }
  EXPECT_LT(relative_error(in.download(), want), 1e-6);
}

TEST_F(Elementwise, GatherRowsAndCopyColumns) {
  const Floats x = Random(5).floats(6 * 11);
  const DeviceArray<float> in(x);
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{5, 0, 5, 2});
  const DeviceArray<float> out(4 * 11);
  gather_rows({in.get(), 11}, ids.get(), {out.get(), 11}, 4, 11, nullptr);
  Floats want;
  for (const std::int64_t row : {5, 0, 5, 2})
    want.insert(want.end(), x.begin() + row * 11, x.begin() + (row + 1) * 11);
  EXPECT_EQ(out.download(), want);
  // Columns [3, 7) of x to columns [0, 4) of out.
  copy_columns({in.get() + 3, 11}, {out.get(), 11}, 4, 4, nullptr);
  for (std::int64_t row = 0; row < 4; ++row)
    std::copy_n(x.begin() + row * 11 + 3, 4, want.begin() + row * 11);
  EXPECT_EQ(out.download(), want);
}

TEST_F(Elementwise, GatherColumns) {
  constexpr std::int64_t kCols = 96;
  const Floats x = Random(7).floats(3 * (kCols + 5));
  std::vector<std::int32_t> order;
  for (std::int32_t col = 0; col < kCols; ++col)
    order.push_back(col * 35 % kCols);  // 35 and 96 have no common divisor
  const DeviceArray<float> in(x);
  const DeviceArray<std::int32_t> ids(order);
  const DeviceArray<float> out(3 * kCols);
  gather_columns({in.get(), kCols + 5}, ids.get(), {out.get(), kCols}, 3, kCols, nullptr);
  Floats want;
  for (std::int64_t row = 0; row < 3; ++row) {
    for (const std::int32_t col : order)
      want.push_back(x[at(row, kCols + 5, col)]);
  }
  EXPECT_EQ(out.download(), want);
}

TEST_F(Elementwise, GatherPairColumns) {
  constexpr std::int64_t kCols = 96;
  constexpr std::int64_t kTopK = 2;
  const Floats x = Random(8).floats(3 * (kCols + 5));
  const std::vector<std::int32_t> experts = {1, 0, -1, 2, 2, 1};  // of 3 tokens
  std::vector<std::int32_t> orders;
  for (const std::int32_t step : {1, 35, 5}) {  // none has a common divisor with 96
    for (std::int32_t col = 0; col < kCols; ++col)
      orders.push_back(col * step % kCols);
  }
  const DeviceArray<float> in(x);
  const DeviceArray<std::int32_t> expert_ids(experts);
  const DeviceArray<std::int32_t> columns(orders);
  const DeviceArray<float> out(6 * kCols);
  gather_pair_columns({.x = {in.get(), kCols + 5},
                       .expert_ids = expert_ids.get(),
                       .orders = columns.get(),
                       .y = {out.get(), kCols}},
                      6, kTopK, kCols, nullptr);
  Floats want;
  for (std::int64_t pair = 0; pair < 6; ++pair) {
    const std::int32_t expert = experts[static_cast<std::size_t>(pair)];
    for (std::int64_t i = 0; i < kCols; ++i) {
      const std::int64_t col = expert < 0 ? 0 : orders[at(expert, kCols, i)];
      want.push_back(expert < 0 ? 0.0F : x[at(pair / kTopK, kCols + 5, col)]);
    }
  }
  EXPECT_EQ(out.download(), want);
}

TEST_F(Elementwise, ScaleRows) {
  const Floats x = Random(6).floats(4 * 530);
  const Floats scales = {1.0F, 0.25F, 1024.0F, 1.0F};
  const DeviceArray<float> y(x);
  const DeviceArray<float> scale_data(scales);
  scale_rows({y.get(), 530}, scale_data.get(), nullptr, 4, 520, nullptr);
  Floats want = x;
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t col = 0; col < 520; ++col)
      want[at(row, 530, col)] *= scales[static_cast<std::size_t>(row)];
  }
  EXPECT_EQ(y.download(), want);
}

}  // namespace
}  // namespace graft::kernels::cuda
