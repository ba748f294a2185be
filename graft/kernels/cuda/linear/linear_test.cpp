#include "graft/kernels/cuda/linear/linear.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/f16_rows.h"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::F16TestRows;
using testing::Floats;
using testing::Random;
using testing::relative_error;
using Doubles = std::vector<double>;

constexpr double kFloatError = 1e-5;
constexpr double kF16Error = 1e-3;
constexpr double kQ8Error = 1e-2;

Doubles multiply(const Floats& x, const Floats& weights, std::int64_t in, const Floats& bias) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / in;
  const std::int64_t out = static_cast<std::int64_t>(weights.size()) / in;
  Doubles y(static_cast<std::size_t>(rows * out));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < in; ++i)
        sum += static_cast<double>(x[static_cast<std::size_t>(row * in + i)]) *
               weights[static_cast<std::size_t>(o * in + i)];
      y[static_cast<std::size_t>(row * out + o)] = sum;
    }
  }
  return y;
}

// One product on the GPU, and its double-precision reference.
struct LinearCase {
  LinearCase(
      DType type, std::int64_t num_rows, std::int64_t num_out, std::int64_t num_in, bool has_bias)
      : rows(num_rows),
        out(num_out),
        in(num_in),
        weights(testing::random_matrix(type, num_out, num_in, 9)),
        x(Random(10).floats(num_rows * num_in)),
        bias(has_bias ? Random(11).floats(num_out) : Floats()),
        want(multiply(x, weights.values, num_in, bias)),
        data(weights.bytes),
        x_data(x),
        bias_data(bias),
        y(static_cast<std::size_t>(num_rows * num_out)),
        matrix({.dtype = type, .data = data.get(), .rows = num_out, .cols = num_in}) {}

  LinearBatch product() const {
    return one_linear(matrix, bias.empty() ? nullptr : bias_data.get(), {x_data.get(), in},
                      {y.get(), out}, rows);
  }
  double error() const { return relative_error(y.download(), want); }

  std::int64_t rows;
  std::int64_t out;
  std::int64_t in;
  testing::TestMatrix weights;
  Floats x;
  Floats bias;
  Doubles want;
  DeviceArray<std::byte> data;
  DeviceArray<float> x_data;
  DeviceArray<float> bias_data;
  DeviceArray<float> y;
  Matrix matrix;
};

std::int64_t columns(DType type, std::int64_t blocks, std::int64_t plain) {
  return is_quantized(type) ? blocks * info(type).block_elems : plain;
}

class LinearType : public testing::GpuTest, public ::testing::WithParamInterface<DType> {};

TEST_P(LinearType, Gemv) {
  const DType type = GetParam();
  for (const std::int64_t rows : {1, 3, 8, 11}) {
    const LinearCase c(type, rows, 13, columns(type, 3, 101), rows != 3);
    gemv(c.product(), nullptr);
    EXPECT_LT(c.error(), kFloatError) << rows << " rows";
  }
}

TEST_P(LinearType, Gemm) {
  const DType type = GetParam();
  const LinearCase c(type, 70, 67, columns(type, 2, 99), true);
  gemm(c.product(), nullptr);
  EXPECT_LT(c.error(), kFloatError);
}

TEST_P(LinearType, GemmF16) {
  const DType type = GetParam();
  const LinearCase c(type, 70, 131, columns(type, 2, 99), true);
  const F16TestRows x_f16({c.x_data.get(), c.in}, c.rows, c.in);
  gemm_f16(c.product(), x_f16.view, nullptr);
  EXPECT_LT(c.error(), kF16Error);
}

class LinearQ8Type : public LinearType {};

TEST_P(LinearQ8Type, GemvQ8) {
  const DType type = GetParam();
  ASSERT_TRUE(has_gemv_q8(type));
  for (const std::int64_t rows : {1, 2, 3, 8, 9, 10}) {
    // The last size is long enough for four warps per output.
    const std::int64_t in = rows == 10 ? 8192 : columns(type, 5, 0);
    const LinearCase c(type, rows, 21, in, rows != 2);
    const DeviceArray<std::byte> memory(q8_rows_bytes(rows, in));
    const Q8Rows q8 = q8_rows_at(memory.get(), rows, in);
    quantize_rows({c.x_data.get(), in}, q8, rows, in, nullptr);
    gemv_q8(c.product(), q8, nullptr);
    EXPECT_LT(c.error(), kQ8Error) << rows << " rows";
    // With the dequantized rows the product matches to f32 accuracy.
    const std::vector<std::byte> bytes = memory.download();
    Floats dequantized(c.x.size());
    const auto* scales = reinterpret_cast<const float*>(
        bytes.data() + (reinterpret_cast<std::byte*>(q8.scales) - memory.get()));
    for (std::size_t i = 0; i < dequantized.size(); ++i) {
      const float scale = scales[i / 32 * 2];
      dequantized[i] = scale * static_cast<float>(static_cast<std::int8_t>(bytes[i]));
      EXPECT_LE(std::abs(dequantized[i] - c.x[i]), 0.5001F * scale);
    }
    EXPECT_LT(relative_error(c.y.download(), multiply(dequantized, c.weights.values, in, c.bias)),
              kFloatError);
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         LinearType,
                         ::testing::ValuesIn(testing::weight_types()),
                         [](const auto& param) { return testing::type_name(param.param); });

INSTANTIATE_TEST_SUITE_P(Types,
                         LinearQ8Type,
                         ::testing::Values(DType::Q4_0,
                                           DType::Q4_1,
                                           DType::Q5_0,
                                           DType::Q5_1,
                                           DType::IQ4_NL,
                                           DType::Q8_0,
                                           DType::Q4_K,
                                           DType::Q5_K,
                                           DType::Q6_K),
                         [](const auto& param) { return testing::type_name(param.param); });

class LinearKernels : public testing::GpuTest {};

// Up to several warps per output, and rows without vector alignment.
TEST_F(LinearKernels, OddShapes) {
  for (const std::int64_t in : {1, 7, 8, 4097, 5120}) {
    for (const std::int64_t out : {1, 2, 65}) {
      for (const std::int64_t rows : {1, 5, 65}) {
        if (in * out * rows > 4000000) continue;
        const LinearCase c(DType::BF16, rows, out, in, true);
        gemv(c.product(), nullptr);
        EXPECT_LT(c.error(), kFloatError) << in << " " << out << " " << rows;
        gemm(c.product(), nullptr);
        EXPECT_LT(c.error(), kFloatError) << in << " " << out << " " << rows;
      }
    }
  }
}

// A row has the same bits alone and batched.
TEST_F(LinearKernels, RowsAreIndependent) {
  const LinearCase all(DType::Q4_K, 8, 33, 2048, false);
  gemv(all.product(), nullptr);
  const Floats batched = all.y.download();
  gemm(all.product(), nullptr);
  const Floats tiled = all.y.download();
  for (std::int64_t row = 0; row < 8; ++row) {
    LinearBatch alone = all.product();
    alone.rows = 1;
    alone.x.data += row * all.in;
    alone.y.data += row * all.out;
    gemv(alone, nullptr);
  }
  EXPECT_EQ(all.y.download(), batched);
  for (std::int64_t row = 0; row < 8; ++row) {
    LinearBatch alone = all.product();
    alone.rows = 1;
    alone.x.data += row * all.in;
    alone.y.data += row * all.out;
    gemm(alone, nullptr);
  }
  EXPECT_EQ(all.y.download(), tiled);
}

TEST_F(LinearKernels, Q8RowsAreIndependent) {
  for (const DType type : {DType::Q4_K, DType::Q6_K, DType::Q4_0, DType::Q5_0, DType::Q5_1}) {
    const LinearCase all(type, 8, 33, 2048, false);
    const DeviceArray<std::byte> memory(q8_rows_bytes(8, all.in));
    const Q8Rows q8 = q8_rows_at(memory.get(), 8, all.in);
    quantize_rows({all.x_data.get(), all.in}, q8, 8, all.in, nullptr);
    gemv_q8(all.product(), q8, nullptr);
    const Floats batched = all.y.download();
    for (std::int64_t row = 0; row < 8; ++row) {
      LinearBatch alone = all.product();
      alone.rows = 1;
      alone.y.data += row * all.out;
      gemv_q8(alone, {q8.quants + row * all.in, q8.scales + row * (all.in / 32) * 2}, nullptr);
    }
    EXPECT_EQ(all.y.download(), batched);
  }
}

TEST_F(LinearKernels, SiluMulQ8) {
  for (const std::int64_t cols : {32, 768, 14336}) {
    const std::int64_t rows = 3;
    const std::int64_t stride = 2 * cols;  // gate and up side by side
    Floats both = Random(15).floats(rows * stride, 3.0F);
    both[0] = -200.0F;
    const DeviceArray<float> x(both);
    const DeviceArray<float> product(static_cast<std::size_t>(rows * cols));
    const DeviceArray<std::byte> want(q8_rows_bytes(rows, cols));
    const DeviceArray<std::byte> got(q8_rows_bytes(rows, cols));
    silu_mul({x.get(), stride}, {x.get() + cols, stride}, {product.get(), cols}, rows, cols,
             nullptr);
    quantize_rows({product.get(), cols}, q8_rows_at(want.get(), rows, cols), rows, cols, nullptr);
    silu_mul_q8({x.get(), stride}, {x.get() + cols, stride}, q8_rows_at(got.get(), rows, cols),
                rows, cols, nullptr);
    EXPECT_EQ(got.download(), want.download());
  }
}

// q, k and v of sizes that get different numbers of warps per output.
TEST_F(LinearKernels, GroupedMatrices) {
  for (const DType type : {DType::Q4_K, DType::Q6_K, DType::Q8_0}) {
    for (const std::int64_t rows : {1, 2, 11}) {
      const std::int64_t in = 4096;
      LinearCase q(type, rows, rows == 1 ? 4100 : 70, in, true);
      LinearCase k(type, rows, 33, in, false);
      LinearCase v(type, rows, 1, in, true);
      const DeviceArray<std::byte> memory(q8_rows_bytes(rows, in));
      const Q8Rows q8 = q8_rows_at(memory.get(), rows, in);
      quantize_rows({q.x_data.get(), in}, q8, rows, in, nullptr);
      std::vector<MatrixResult> results;
      std::vector<Floats> want;
      for (LinearCase* c : {&q, &k, &v}) {
        const LinearBatch product = c->product();
        gemv_q8(product, q8, nullptr);
        want.push_back(c->y.download());
        c->y.upload(Floats(want.back().size(), -1.0F));
        results.push_back({c->matrix, product.bias, product.y});
      }
      gemv_q8_grouped(results, q8, rows, nullptr);
      EXPECT_EQ(q.y.download(), want[0]);
      EXPECT_EQ(k.y.download(), want[1]);
      EXPECT_EQ(v.y.download(), want[2]);
    }
  }
}

TEST_F(LinearKernels, TileScales) {
  const std::int64_t in = 300;
  const std::int64_t out = 70;
  const LinearCase c(DType::F8_E4M3, 5, out, in, false);
  const Floats scales = Random(12).floats(3 * 3);
  const DeviceArray<float> scale_data(scales);
  Floats weights = c.weights.values;
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i)
      weights[static_cast<std::size_t>(o * in + i)] *=
          scales[static_cast<std::size_t>(o / 32 * 3 + i / 128)];
  }
  LinearBatch product = c.product();
  product.stack.scales = {.values = scale_data.get(),
                          .matrix_rows = out,
                          .tile_rows = 32,
                          .tile_cols = 128,
                          .scale_cols = 3};
  const Doubles want = multiply(c.x, weights, in, {});
  gemv(product, nullptr);
  EXPECT_LT(relative_error(c.y.download(), want), kFloatError);
  gemm(product, nullptr);
  EXPECT_LT(relative_error(c.y.download(), want), kFloatError);
  const F16TestRows x_f16(product.x, 5, in);
  gemm_f16(product, x_f16.view, nullptr);
  EXPECT_LT(relative_error(c.y.download(), want), kF16Error);
}

// Each product has its own matrix and its own column range of every row.
TEST_F(LinearKernels, OneMatrixPerHead) {
  const std::int64_t heads = 3;
  const std::int64_t rows = 10;
  const std::int64_t in = 24;
  const std::int64_t out = 9;
  const testing::TestMatrix weights = testing::random_matrix(DType::F32, heads * out, in, 13);
  const Floats x = Random(14).floats(rows * heads * in);
  Doubles want(static_cast<std::size_t>(rows * heads * out));
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto x_begin = x.begin() + (row * heads + head) * in;
      const auto w_begin = weights.values.begin() + head * out * in;
      const Doubles y = multiply({x_begin, x_begin + in}, {w_begin, w_begin + out * in}, in, {});
      std::copy(y.begin(), y.end(), want.begin() + (row * heads + head) * out);
    }
  }
  const DeviceArray<std::byte> data(weights.bytes);
  const DeviceArray<float> x_data(x);
  const DeviceArray<float> y(want.size());
  const LinearBatch products = {.stack = {.dtype = DType::F32, .data = data.get(), .cols = in},
                                .out = out,
                                .matrix_bytes = static_cast<std::size_t>(out * in) * 4,
                                .batch = heads,
                                .rows = rows,
                                .x = {x_data.get(), heads * in},
                                .x_batch_stride = in,
                                .y = {y.get(), heads * out},
                                .y_batch_stride = out};
  gemv(products, nullptr);
  EXPECT_LT(relative_error(y.download(), want), kFloatError);
  gemm(products, nullptr);
  EXPECT_LT(relative_error(y.download(), want), kFloatError);
  F16TestRows x_f16({x_data.get(), in}, rows * heads, in);
  x_f16.view.row_stride = heads;
  gemm_f16(products, x_f16.view, nullptr);
  EXPECT_LT(relative_error(y.download(), want), kF16Error);
}

// Products 0 and 1 share the first rows of x, products 2 and 3 the next; gate and up stacks.
TEST_F(LinearKernels, SharedRowsAndSecondStack) {
  const std::int64_t rows = 9;
  const std::int64_t in = 40;
  const std::int64_t out = 11;
  const testing::TestMatrix weights = testing::random_matrix(DType::F16, 4 * 2 * out, in, 15);
  const Floats x = Random(16).floats(2 * rows * in);
  const DeviceArray<std::byte> data(weights.bytes);
  const DeviceArray<float> x_data(x);
  Doubles want;
  for (std::int64_t product = 0; product < 8; ++product) {
    const auto x_begin = x.begin() + product % 4 / 2 * rows * in;
    const auto w_begin = weights.values.begin() + product * out * in;
    const Doubles y =
        multiply({x_begin, x_begin + rows * in}, {w_begin, w_begin + out * in}, in, {});
    want.insert(want.end(), y.begin(), y.end());
  }
  const DeviceArray<float> y(want.size());
  const auto matrix_bytes = static_cast<std::size_t>(out * in) * 2;
  const LinearBatch products = {.stack = {.dtype = DType::F16, .data = data.get(), .cols = in},
                                .out = out,
                                .matrix_bytes = matrix_bytes,
                                .batch = 4,
                                .rows = rows,
                                .x = {x_data.get(), in},
                                .x_batch_stride = rows * in,
                                .products_per_x = 2,
                                .y = {y.get(), out},
                                .y_batch_stride = rows * out,
                                .second = data.get() + 4 * matrix_bytes};
  gemm(products, nullptr);
  EXPECT_LT(relative_error(y.download(), want), kFloatError);
  const F16TestRows x_f16(products.x, 2 * rows, in);
  gemm_f16(products, x_f16.view, nullptr);
  EXPECT_LT(relative_error(y.download(), want), kF16Error);
}

}  // namespace
}  // namespace graft::kernels::cuda
