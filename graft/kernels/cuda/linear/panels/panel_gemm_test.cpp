#include "graft/kernels/cuda/linear/panels/panel_gemm.h"

#include <array>
#include <span>
#include <vector>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/testing/cuda/panels.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::PanelStackCase;
using testing::Random;
using testing::relative_error;

std::vector<DType> panel_types() {
  std::vector<DType> types;
  for (const packing::PackedType& type : packing::kPackedTypes) {
    if (has_panels(type.dtype)) types.push_back(type.dtype);
  }
  return types;
}

struct RowsCase {
  explicit RowsCase(std::int64_t num_cols, const Floats& values)
      : rows(static_cast<std::int64_t>(values.size()) / num_cols),
        cols(num_cols),
        x(values),
        memory(panel_rows_bytes(rows, num_cols)),
        panel_rows(panel_rows_at(memory.get(), rows, num_cols)) {
    to_panel_rows({x.get(), cols}, panel_rows, cols, nullptr);
  }
  RowsCase(std::int64_t num_rows, std::int64_t num_cols)
      : RowsCase(num_cols, Random(71).floats(num_rows * num_cols)) {}

  std::int64_t rows;
  std::int64_t cols;
  DeviceArray<float> x;
  DeviceArray<std::byte> memory;
  PanelRows panel_rows;
};

class PanelGemm : public testing::GpuTest {
 protected:
  void SetUp() override {
    testing::GpuTest::SetUp();
    if (!IsSkipped() && !has_panel_gemm()) GTEST_SKIP() << "needs sm_90";
  }
};

void run(DType type, std::int64_t cols, std::span<const PanelMatrix> matrices, const RowsCase& x) {
  const DeviceArray<std::byte> scratch(panel_gemm_bytes(type, cols, matrices, x.panel_rows) + 1);
  panel_gemm(type, cols, matrices, x.panel_rows, scratch.get(), nullptr);
}

Floats multiply(const PanelStackCase& weights, const RowsCase& x, const float* bias = nullptr) {
  const DeviceArray<float> y(Floats(static_cast<std::size_t>(x.rows * weights.rows), 7.0F));
  const PanelMatrix matrix = {.panels = weights.panels.get(),
                              .out = weights.rows,
                              .bias = bias,
                              .y = {y.get(), weights.rows}};
  run(weights.dtype, weights.cols, {&matrix, 1}, x);
  return y.download();
}

// In f32 arithmetic.
Floats expected(const PanelStackCase& weights, const RowsCase& x, const float* bias = nullptr) {
  const DeviceArray<float> y(static_cast<std::size_t>(x.rows * weights.rows));
  gemm(one_linear({.dtype = DType::F32,
                   .data = weights.values.get(),
                   .rows = weights.rows,
                   .cols = weights.cols},
                  bias, {x.x.get(), x.cols}, {y.get(), weights.rows}, x.rows),
       nullptr);
  return y.download();
}

TEST_F(PanelGemm, PacksAsTheCpuDoes) {
  for (const DType type : panel_types()) {
    const std::int64_t rows = 40;  // the last panel is not full
    const std::int64_t cols = 768;
    const std::vector<std::byte> stored = testing::random_matrix(type, rows, cols, 70).bytes;
    const std::vector<std::byte> want = testing::pack_stack(type, stored, 1, rows, cols);
    const DeviceArray<std::byte> from(stored);
    const DeviceArray<std::byte> panels(std::vector<std::byte>(want.size(), std::byte{9}));
    pack_panels(type, from.get(), rows, cols, panels.get(), nullptr);
    EXPECT_EQ(panels.download(), want) << name(type);
  }
}

TEST_F(PanelGemm, IsNearF32ForEveryType) {
  for (const DType type : panel_types()) {
    const PanelStackCase weights(type, 1, 600, 1536, 72);  // neither panels nor groups are full
    const DeviceArray<float> bias(Random(73).floats(weights.rows));
    for (const std::int64_t rows : {1, 2, 8, 9, 17, 33, 64, 65, 200}) {
      const RowsCase x(rows, weights.cols);
      EXPECT_LT(relative_error(multiply(weights, x, bias.get()), expected(weights, x, bias.get())),
                2e-3)
          << name(type) << ", " << rows << " rows";
    }
  }
}

// Columns that do not fill the last step of 128 or the last unit, more panels than fit at a time,
// and more columns than the kernel for few rows takes.
TEST_F(PanelGemm, TakesAnyShape) {
  for (const DType type : {DType::Q8_0, DType::Q4_1, DType::MXFP4}) {
    for (const std::int64_t cols : {32, 64, 96, 160, 1408, 10944, 34816}) {
      for (const std::int64_t out : {8, 48, 2048, 40000}) {
        if (out * cols > 100'000'000) continue;
        const PanelStackCase weights(type, 1, out, cols, 73);
        for (const std::int64_t rows : {3, 40}) {
          const RowsCase x(rows, cols);
          EXPECT_LT(relative_error(multiply(weights, x), expected(weights, x)), 2e-3)
              << name(type) << ", " << out << " x " << cols << ", " << rows << " rows";
        }
      }
    }
  }
}

TEST_F(PanelGemm, MultipliesSeveralMatrices) {
  const PanelStackCase q(DType::Q4_K, 1, 512, 2048, 74);
  const PanelStackCase k(DType::Q4_K, 1, 128, 2048, 75);
  const PanelStackCase v(DType::Q4_K, 1, 72, 2048, 76);
  const RowsCase x(5, 2048);
  const std::array<const PanelStackCase*, 3> weights = {&q, &k, &v};
  const DeviceArray<float> memory(static_cast<std::size_t>(x.rows * (512 + 128 + 72)));
  std::vector<PanelMatrix> matrices;
  float* y = memory.get();
  for (const PanelStackCase* one : weights) {
    matrices.push_back({.panels = one->panels.get(), .out = one->rows, .y = {y, one->rows}});
    y += x.rows * one->rows;
  }
  run(DType::Q4_K, 2048, matrices, x);
  const Floats got = memory.download();
  auto begin = got.begin();
  for (const PanelStackCase* one : weights) {
    const auto end = begin + x.rows * one->rows;
    EXPECT_LT(relative_error(Floats(begin, end), expected(*one, x)), 2e-3) << one->rows;
    begin = end;
  }
}

// Shapes for which every kernel is chosen: all units of a row in one thread block, in several
// slices, and with quarters of one and two segments; outputs for the variants of the kernels for
// many rows; all types of panel_gemm_wgmma.cu.
TEST_F(PanelGemm, ARowsBitsDoNotDependOnTheBatch) {
  struct Shape {
    DType type;
    std::int64_t out;
    std::int64_t cols;
  };
  for (const Shape& shape : {Shape{DType::Q4_K, 320, 2048}, Shape{DType::Q6_K, 320, 2048},
                             Shape{DType::Q8_0, 320, 2080}, Shape{DType::Q4_K, 24000, 768},
                             Shape{DType::Q5_0, 320, 7168}, Shape{DType::Q4_K, 512, 14336},
                             Shape{DType::Q4_K, 36000, 1536}, Shape{DType::Q6_K, 20008, 4096},
                             Shape{DType::Q5_K, 8192, 14336}, Shape{DType::Q2_K, 20000, 2048},
                             Shape{DType::Q3_K, 6144, 4096}, Shape{DType::IQ4_XS, 20000, 4096}}) {
    const PanelStackCase weights(shape.type, 1, shape.out, shape.cols, 77);
    const RowsCase many(256, weights.cols);
    const Floats values = many.x.download();
    const Floats together = multiply(weights, many);
    for (const std::int64_t count : {1, 3, 12, 30, 64, 100}) {
      for (const std::int64_t row : {0, 7, 50, 156}) {
        const auto begin = values.begin() + row * weights.cols;
        const RowsCase some(weights.cols, Floats(begin, begin + count * weights.cols));
        const auto want = together.begin() + row * weights.rows;
        EXPECT_EQ(multiply(weights, some), Floats(want, want + count * weights.rows))
            << name(shape.type) << " " << shape.out << " x " << shape.cols << ", rows from " << row
            << ", " << count;
      }
    }
  }
}

// The last of the slices leaves the counters at zero for the next product of the same rows.
TEST_F(PanelGemm, RepeatsWithTheSameRows) {
  const PanelStackCase weights(DType::Q4_K, 1, 512, 14336, 84);
  for (const std::int64_t rows : {2, 24}) {
    const RowsCase x(rows, weights.cols);
    const Floats first = multiply(weights, x);
    EXPECT_LT(relative_error(first, expected(weights, x)), 2e-3) << rows;
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(multiply(weights, x), first) << rows;
  }
}

TEST_F(PanelGemm, OtherMatricesDoNotChangeAnOutput) {
  const PanelStackCase q(DType::Q4_K, 1, 2048, 4096, 85);
  const PanelStackCase k(DType::Q4_K, 1, 264, 4096, 86);
  const DeviceArray<float> bias(Random(87).floats(k.rows));
  for (const std::int64_t rows : {1, 9, 40}) {
    const RowsCase x(rows, 4096);
    const DeviceArray<float> q_y(static_cast<std::size_t>(rows * q.rows));
    const DeviceArray<float> k_y(static_cast<std::size_t>(rows * k.rows));
    const std::array<PanelMatrix, 2> matrices = {
        PanelMatrix{.panels = q.panels.get(), .out = q.rows, .y = {q_y.get(), q.rows}},
        PanelMatrix{
            .panels = k.panels.get(), .out = k.rows, .bias = bias.get(), .y = {k_y.get(), k.rows}}};
    run(DType::Q4_K, 4096, matrices, x);
    EXPECT_EQ(q_y.download(), multiply(q, x)) << rows;
    EXPECT_EQ(k_y.download(), multiply(k, x, bias.get())) << rows;
  }
}

// Rows beyond the range of F16 are scaled.
TEST_F(PanelGemm, TakesRowsOfAnyMagnitude) {
  const PanelStackCase weights(DType::Q4_K, 1, 64, 512, 78);
  Floats values = Random(79).floats(4 * weights.cols);
  const Floats factors = {1e-7F, 1e7F, 1.0F, 3e4F};
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= factors[i / static_cast<std::size_t>(weights.cols)];
  for (std::size_t row = 0; row < factors.size(); ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) * weights.cols;
    const RowsCase x(weights.cols, Floats(begin, begin + weights.cols));
    EXPECT_LT(relative_error(multiply(weights, x), expected(weights, x)), 2e-3) << factors[row];
  }
}

std::vector<std::byte> bytes_of_rows(const PanelRows& rows, const DeviceArray<std::byte>& memory) {
  EXPECT_EQ(reinterpret_cast<const std::byte*>(rows.values), memory.get());
  return memory.download();
}

TEST_F(PanelGemm, FusedConversionsEqualSeparateOnes) {
  for (const std::int64_t cols : {64, 160, 4096, 20480}) {
    const std::int64_t rows = 3;
    const DeviceArray<float> gate(Random(80).floats(rows * cols));
    const DeviceArray<float> up(Random(81).floats(rows * cols));
    const DeviceArray<float> product(static_cast<std::size_t>(rows * cols));
    silu_mul({gate.get(), cols}, {up.get(), cols}, {product.get(), cols}, rows, cols, nullptr);
    const RowsCase want(cols, product.download());
    const DeviceArray<std::byte> memory(panel_rows_bytes(rows, cols));
    const PanelRows fused = panel_rows_at(memory.get(), rows, cols);
    silu_mul_panel_rows({gate.get(), cols}, {up.get(), cols}, fused, cols, nullptr);
    EXPECT_EQ(bytes_of_rows(fused, memory), bytes_of_rows(want.panel_rows, want.memory)) << cols;

    const DeviceArray<float> x(Random(82).floats(rows * cols));
    const DeviceArray<float> weight(Random(83).floats(cols));
    const DeviceArray<float> y(static_cast<std::size_t>(rows * cols));
    add_rms_norm_panel_rows({x.get(), cols}, {up.get(), cols}, weight.get(), {y.get(), cols}, fused,
                            {.rows = rows, .cols = cols, .eps = 1e-5F}, nullptr);
    const RowsCase norm(cols, y.download());
    EXPECT_EQ(bytes_of_rows(fused, memory), bytes_of_rows(norm.panel_rows, norm.memory)) << cols;
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
