#include "graft/kernels/cpu/math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/kernels/cpu/table.h"
#include "graft/testing/floats.h"

namespace graft::kernels::cpu {
namespace {

void expect_same_bits(const Floats& got, const Floats& want) {
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
}

// Lengths around the 16 lanes and the loop steps.
constexpr std::int64_t kLengths[] = {1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 128, 129, 333};

class MathTest : public testing::TestWithParam<const KernelTable*> {
 protected:
  static const MathTable& math() { return GetParam()->math; }
  static const MathTable& reference() { return runnable_kernels()[0]->math; }
  // Levels with FMA match each other.
  static const MathTable& fma_reference() {
    const bool has_fma = GetParam()->isa != "scalar";
    return runnable_kernels()[has_fma ? 1 : 0]->math;
  }
};

struct MatmulProblem {
  std::int64_t num_x, num_w, cols;
  std::int64_t ldx, ldw;
  Floats x, w;

  MatmulProblem(std::int64_t rows_x, std::int64_t rows_w, std::int64_t n)
      : num_x(rows_x),
        num_w(rows_w),
        cols(n),
        ldx(n + 3),
        ldw(n + 1),
        x(random_floats(rows_x * ldx)),
        w(random_floats(rows_w * ldw)) {}

  Floats run(const MathTable& table) const {
    const std::int64_t ldy = num_w + 2;
    Floats y(static_cast<std::size_t>(num_x * ldy), 7.0F);
    table.matmul({x.data(), num_x, ldx}, {w.data(), num_w, ldw}, cols, y.data(), ldy);
    return y;
  }
};

TEST_P(MathTest, MatmulMatchesTheReferenceAndTheFormula) {
  for (const std::int64_t cols : kLengths) {
    for (const auto& [num_x, num_w] : {std::pair{1, 1}, {1, 13}, {5, 7}, {4, 6}, {9, 25}, {2, 3}}) {
      const MatmulProblem problem(num_x, num_w, cols);
      const Floats y = problem.run(math());
      expect_same_bits(y, problem.run(fma_reference()));
      for (std::int64_t r = 0; r < num_x; ++r) {
        for (std::int64_t c = 0; c < num_w; ++c) {
          double want = 0;
          for (std::int64_t i = 0; i < cols; ++i) {
            want += static_cast<double>(problem.x[static_cast<std::size_t>(r * problem.ldx + i)]) *
                    static_cast<double>(problem.w[static_cast<std::size_t>(c * problem.ldw + i)]);
          }
          EXPECT_NEAR(y[static_cast<std::size_t>(r * (num_w + 2) + c)], want, 1e-4);
        }
        EXPECT_EQ(y[static_cast<std::size_t>(r * (num_w + 2) + num_w)], 7.0F)
            << "written past the end of the row";
      }
    }
  }
}

struct StoredType {
  DType dtype;
  void (*MathTable::*matmul)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy);
};

constexpr std::array kStoredTypes = {
    StoredType{DType::F16, &MathTable::matmul_f16},
    StoredType{DType::BF16, &MathTable::matmul_bf16},
    StoredType{DType::F8_E4M3, &MathTable::matmul_e4m3},
    StoredType{DType::F8_E5M2, &MathTable::matmul_e5m2},
};

TEST_P(MathTest, MatmulOfStoredRowsMatchesDecodedRows) {
  for (const StoredType& type : kStoredTypes) {
    if (math().*type.matmul == nullptr) GTEST_SKIP() << "this level has no kernel for stored rows";
    const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(type.dtype)];
    const auto elem_bytes = static_cast<std::int64_t>(info(type.dtype).block_bytes);
    for (const std::int64_t cols : kLengths) {
      for (const auto& [num_x, num_w] :
           {std::pair{1, 1}, {1, 13}, {5, 7}, {4, 6}, {2, 25}, {3, 3}, {6, 4}, {7, 8}, {8, 9}}) {
        MatmulProblem problem(num_x, num_w, cols);
        std::vector<std::byte> stored(problem.w.size() * static_cast<std::size_t>(elem_bytes));
        codec.encode(problem.w.data(), stored.data(), problem.w.size());
        codec.decode(stored.data(), problem.w.data(), problem.w.size());
        // FP8 rows have one scale per 32 columns; the other types have none.
        const bool is_scaled = elem_bytes == 1;
        const std::int64_t num_tiles = (problem.ldw + 31) / 32;
        const Floats scales = random_floats(num_w * num_tiles);
        std::vector<const float*> row_scales;
        for (std::int64_t r = 0; r < num_w; ++r) {
          row_scales.push_back(scales.data() + r * num_tiles);
          for (std::int64_t i = 0; is_scaled && i < problem.ldw; ++i)
            problem.w[static_cast<std::size_t>(r * problem.ldw + i)] *= row_scales.back()[i / 32];
        }
        const Floats want = problem.run(math());
        Floats y(want.size(), 7.0F);
        (math().*type.matmul)({problem.x.data(), num_x, problem.ldx},
                              {.data = stored.data(),
                               .rows = num_w,
                               .cols = cols,
                               .stride = elem_bytes * problem.ldw,
                               .scales = row_scales.data(),
                               .cols_per_scale = 32},
                              y.data(), num_w + 2);
        expect_same_bits(y, want);
      }
    }
  }
}

// x is a unit vector, so the product is the value of the code, infinity and NaN included.
TEST_P(MathTest, MatmulOfStoredRowsDecodesEveryCode) {
  for (const StoredType& type : kStoredTypes) {
    if (math().*type.matmul == nullptr) GTEST_SKIP() << "this level has no kernel for stored rows";
    const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(type.dtype)];
    const auto elem_bytes = static_cast<std::int64_t>(info(type.dtype).block_bytes);
    const std::int64_t num_codes = std::int64_t{1} << (8 * elem_bytes);
    constexpr std::int64_t kCols = 32;
    const float scale = 1.0F;
    const float* row_scales = &scale;
    for (std::int64_t code = 0; code < num_codes; ++code) {
      std::vector<std::byte> row(static_cast<std::size_t>(kCols * elem_bytes));
      std::memcpy(row.data() + 21 * elem_bytes, &code, static_cast<std::size_t>(elem_bytes));
      float want = 0;
      codec.decode(row.data() + 21 * elem_bytes, &want, 1);
      Floats x(kCols);
      x[21] = 1.0F;
      float got = 0;
      (math().*type.matmul)({x.data(), 1, kCols},
                            {.data = row.data(),
                             .rows = 1,
                             .cols = kCols,
                             .stride = kCols * elem_bytes,
                             .scales = &row_scales,
                             .cols_per_scale = kCols},
                            &got, 1);
      if (want != want) {
        EXPECT_TRUE(got != got) << name(type.dtype) << " " << code;
      } else {
        EXPECT_EQ(got, want) << name(type.dtype) << " " << code;
      }
    }
  }
}

TEST_P(MathTest, MatmulRowsAreIndependent) {
  const MatmulProblem all(11, 17, 333);
  const Floats y = all.run(math());
  for (std::int64_t r = 0; r < all.num_x; ++r) {
    for (std::int64_t c = 0; c < all.num_w; ++c) {
      float alone = 0;
      math().matmul({all.x.data() + r * all.ldx, 1, 1}, {all.w.data() + c * all.ldw, 1, 1},
                    all.cols, &alone, 1);
      EXPECT_EQ(alone, y[static_cast<std::size_t>(r * (all.num_w + 2) + c)]);
    }
  }
}

TEST_P(MathTest, RowFunctionsMatchTheReference) {
  for (const std::int64_t n : kLengths) {
    const Floats x = random_floats(n, 20.0F);
    const Floats w = random_floats(n);
    const auto run = [&](const MathTable& table) {
      Floats all;
      const auto keep = [&](const Floats& part) {
        all.insert(all.end(), part.begin(), part.end());
      };
      Floats y(x.size());
      table.rms_norm(x.data(), w.data(), y.data(), n, 1e-5F);
      keep(y);
      table.silu_mul(x.data(), w.data(), y.data(), n);
      keep(y);
      table.gelu_mul(x.data(), w.data(), y.data(), n);
      keep(y);
      table.clamped_swiglu(x.data(), w.data(), y.data(), n, 7.0F);
      keep(y);
      table.axpy(0.7F, x.data(), y.data(), n);
      keep(y);
      table.scale(y.data(), n, 1.3F);
      keep(y);
      table.sigmoid(y.data(), n);
      keep(y);
      keep({table.max(x.data(), n)});
      y = x;
      keep({table.exp_sum(y.data(), n, table.max(x.data(), n))});
      keep(y);
      return all;
    };
    expect_same_bits(run(math()), run(reference()));
  }
}

TEST_P(MathTest, RowFunctionsMatchTheirFormulas) {
  for (const std::int64_t n : kLengths) {
    const Floats x = random_floats(n, 10.0F);
    const Floats up = random_floats(n);
    double squares = 0;
    double sum = 0;
    float max = x[0];
    for (const float value : x)
      max = std::max(max, value);
    for (const float value : x) {
      squares += static_cast<double>(value) * value;
      sum += std::exp(static_cast<double>(value) - max);
    }
    Floats normed(x.size());
    math().rms_norm(x.data(), up.data(), normed.data(), n, 1e-5F);
    Floats gated(x.size());
    math().silu_mul(x.data(), up.data(), gated.data(), n);
    Floats gelu(x.size());
    math().gelu_mul(x.data(), up.data(), gelu.data(), n);
    Floats clamped(x.size());
    math().clamped_swiglu(x.data(), up.data(), clamped.data(), n, 0.5F);
    Floats exps = x;
    EXPECT_EQ(math().max(x.data(), n), max);
    EXPECT_NEAR(math().exp_sum(exps.data(), n, max), sum, 1e-5 * sum);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = x[i];
      const double rms = std::sqrt(squares / static_cast<double>(n) + 1e-5);
      EXPECT_NEAR(normed[i], value / rms * up[i], 1e-5);
      EXPECT_NEAR(gated[i], value / (1 + std::exp(-value)) * up[i], 1e-5);
      const double z = 0.79788456080286536 * (value + 0.044715 * value * value * value);
      EXPECT_NEAR(gelu[i], 0.5 * value * (1 + std::tanh(z)) * up[i], 1e-5);
      const double gate = std::min(value, 0.5);
      const double clamped_up = std::clamp(static_cast<double>(up[i]), -0.5, 0.5);
      EXPECT_NEAR(clamped[i], gate / (1 + std::exp(-1.702 * gate)) * (clamped_up + 1), 1e-5);
      EXPECT_NEAR(exps[i], std::exp(value - max), 1e-6);
    }
  }
}

TEST_P(MathTest, ExpIsAccurateToTwoUlp) {
  for (int i = 0; i < 8000; ++i) {
    float value = -87.0F * static_cast<float>(i) / 8000.0F;
    const double want = std::exp(static_cast<double>(value));
    math().exp_sum(&value, 1, 0.0F);
    EXPECT_NEAR(value, want, 2.4e-7 * want) << i;
  }
}

TEST_P(MathTest, HandlesInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  Floats x = {-infinity, 0.0F, -1000.0F, std::nanf("")};
  math().exp_sum(x.data(), 4, 0.0F);
  EXPECT_EQ(x[0], 0.0F);
  EXPECT_EQ(x[1], 1.0F);
  EXPECT_EQ(x[2], 0.0F);
  EXPECT_TRUE(std::isnan(x[3]));
  Floats s = {-200.0F, 200.0F, std::nanf("")};
  math().sigmoid(s.data(), 3);
  EXPECT_NEAR(s[0], 0.0F, 1e-37F);
  EXPECT_EQ(s[1], 1.0F);
  EXPECT_TRUE(std::isnan(s[2]));
}

TEST_P(MathTest, RotationsMatchTheFormulaExactly) {
  for (const std::int64_t half : {1, 3, 8, 16, 21, 32, 64}) {
    const auto n = static_cast<std::size_t>(half);
    const Floats x = random_floats(2 * half);
    const Floats c = random_floats(half);
    const Floats s = random_floats(half);
    Floats halves = x;
    math().rope_halves(halves.data(), c.data(), s.data(), half);
    Floats pairs = x;
    Floats twice_c;
    Floats twice_s;
    for (std::size_t i = 0; i < n; ++i) {
      twice_c.insert(twice_c.end(), {c[i], c[i]});
      twice_s.insert(twice_s.end(), {-s[i], s[i]});
    }
    math().rope_pairs(pairs.data(), twice_c.data(), twice_s.data(), half);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(halves[i], x[i] * c[i] - x[n + i] * s[i]);
      EXPECT_EQ(halves[n + i], x[n + i] * c[i] + x[i] * s[i]);
      EXPECT_EQ(pairs[2 * i], x[2 * i] * c[i] - x[2 * i + 1] * s[i]);
      EXPECT_EQ(pairs[2 * i + 1], x[2 * i + 1] * c[i] + x[2 * i] * s[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         MathTest,
                         testing::ValuesIn(runnable_kernels().begin(), runnable_kernels().end()),
                         [](const auto& test) { return std::string(test.param->isa); });

}  // namespace
}  // namespace graft::kernels::cpu
