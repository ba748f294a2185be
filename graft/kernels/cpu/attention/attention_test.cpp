// Attention kernels: against their formulas at every level, bit-identical between the levels with
// FMA, and bit-identical regardless of the other rows.

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

using Ints = std::vector<std::int32_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class AttentionTest : public testing::TestWithParam<const KernelTable*> {
 protected:
  static const MathTable& math() { return GetParam()->math; }
  // The first level with FMA, which the later ones must equal; the baseline for itself.
  static const MathTable& equal() {
    const auto tables = runnable_kernels();
    return GetParam() == tables[0] ? tables[0]->math : tables[1]->math;
  }
};

struct ProductProblem {
  std::int64_t m, n, k;
  bool transposed;  // a is stored as [k, m]
  Floats a, b, c, factor;

  ProductProblem(std::int64_t rows, std::int64_t cols, std::int64_t terms, bool by_columns)
      : m(rows),
        n(cols),
        k(terms),
        transposed(by_columns),
        a(random_floats(std::max<std::int64_t>(rows * terms, 1))),  // never empty
        b(random_floats(std::max<std::int64_t>(terms * (cols + 3), 1))),
        c(random_floats(rows * (cols + 1))),
        factor(random_floats(rows)) {}

  Product product(Floats& out, bool add) const {
    return {.a = a.data(),
            .a_row = transposed ? 1 : k,
            .a_col = transposed ? m : 1,
            .b = b.data(),
            .ldb = n + 3,
            .c = out.data(),
            .ldc = n + 1,
            .m = m,
            .n = n,
            .k = k,
            .factor = add ? factor.data() : nullptr};
  }
  Floats run(const MathTable& table, bool add) const {
    Floats out = c;
    table.product(product(out, add));
    return out;
  }
  double want(std::int64_t row, std::int64_t col, bool add) const {
    double sum = add ? static_cast<double>(factor[static_cast<std::size_t>(row)]) *
                           c[static_cast<std::size_t>(row * (n + 1) + col)]
                     : 0.0;
    for (std::int64_t i = 0; i < k; ++i) {
      sum +=
          static_cast<double>(a[static_cast<std::size_t>(transposed ? i * m + row : row * k + i)]) *
          b[static_cast<std::size_t>(i * (n + 3) + col)];
    }
    return sum;
  }
};

TEST_P(AttentionTest, ProductMatchesTheFormula) {
  for (const std::int64_t m : {1, 3, 5, 17, 64}) {
    for (const std::int64_t n : {1, 3, 4, 8, 13, 16, 20, 48, 64, 129}) {
      for (const std::int64_t k : {0, 1, 7, 64, 130, 300}) {
        for (const bool add : {false, true}) {
          const ProductProblem problem(m, n, k, add);
          const Floats got = problem.run(math(), add);
          EXPECT_TRUE(same_bits(got, problem.run(equal(), add))) << m << ' ' << n << ' ' << k;
          for (std::int64_t row = 0; row < m; ++row) {
            for (std::int64_t col = 0; col < n; ++col) {
              ASSERT_NEAR(got[static_cast<std::size_t>(row * (n + 1) + col)],
                          problem.want(row, col, add), 1e-3);
            }
            EXPECT_EQ(got[static_cast<std::size_t>(row * (n + 1) + n)],
                      problem.c[static_cast<std::size_t>(row * (n + 1) + n)])
                << "written past the end of the row";
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, ProductElementsAreIndependent) {
  const ProductProblem all(19, 85, 200, false);
  const Floats together = all.run(math(), true);
  for (std::int64_t row = 0; row < all.m; ++row) {
    for (std::int64_t col = 0; col < all.n; ++col) {
      Floats out = all.c;
      Product one = all.product(out, true);
      one.a += row * all.k;
      one.b += col;
      one.c += row * (all.n + 1) + col;
      one.m = one.n = 1;
      one.factor += row;
      math().product(one);
      const auto at = static_cast<std::size_t>(row * (all.n + 1) + col);
      ASSERT_EQ(out[at], together[at]) << row << ' ' << col;
    }
  }
}

// Query rows with their softmax state, fed with blocks of scores [64, rows].
struct Softmax {
  std::int64_t width;
  Floats max, sum, correction, scores;

  explicit Softmax(std::int64_t lanes)
      : width(lanes),
        max(static_cast<std::size_t>(lanes), -kInfinity),
        sum(static_cast<std::size_t>(lanes)),
        correction(static_cast<std::size_t>(lanes)) {}

  void add(const MathTable& table,
           Floats block,
           std::int64_t count,
           const Ints& first,
           const Ints& end) {
    scores = std::move(block);
    table.softmax_block({.scores = scores.data(),
                         .count = count,
                         .width = width,
                         .first = first.empty() ? nullptr : first.data(),
                         .end = end.empty() ? nullptr : end.data(),
                         .max = max.data(),
                         .sum = sum.data(),
                         .correction = correction.data()});
  }
};

// Columns [first, first + lanes) of [64, width]; past the end the last column is repeated.
Floats columns(const Floats& block, std::int64_t width, std::int64_t first, std::int64_t lanes) {
  Floats taken;
  for (std::int64_t key = 0; key < 64; ++key) {
    for (std::int64_t i = 0; i < lanes; ++i)
      taken.push_back(
          block[static_cast<std::size_t>(key * width + std::min(first + i, width - 1))]);
  }
  return taken;
}

Ints columns(const Ints& ranges, std::int64_t first, std::int64_t lanes) {
  Ints taken;
  for (std::int64_t i = 0; i < lanes; ++i) {
    const auto last = static_cast<std::int64_t>(ranges.size()) - 1;
    if (last >= 0) taken.push_back(ranges[static_cast<std::size_t>(std::min(first + i, last))]);
  }
  return taken;
}

// Key ranges of three blocks: all keys; some keys; no key for every fifth row.
struct Visibility {
  std::vector<Ints> first, end;

  explicit Visibility(std::size_t rows) : first(3), end(3) {
    first[1].resize(rows);
    end[1].resize(rows);
    first[2].resize(rows);
    end[2].resize(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      first[1][r] = static_cast<std::int32_t>(r % 7);
      end[1][r] = static_cast<std::int32_t>(37 + r % 27);
      end[2][r] = r % 5 == 0 ? 0 : static_cast<std::int32_t>(1 + r % 9);
    }
  }
};

constexpr std::int64_t kRows = 48;
constexpr std::array<std::int64_t, 3> kCounts = {64, 64, 9};  // keys of the three blocks

std::vector<Floats> three_blocks() {
  std::vector<Floats> blocks;
  for (int i = 0; i < 3; ++i)
    blocks.push_back(random_floats(64 * kRows, 30.0F));
  return blocks;
}

TEST_P(AttentionTest, SoftmaxMatchesTheFormula) {
  const Visibility visible(kRows);
  const std::vector<Floats> blocks = three_blocks();
  Softmax rows(kRows);
  std::vector<double> sums(kRows);
  for (std::size_t b = 0; b < 3; ++b) {
    const Floats before = rows.max;
    rows.add(math(), blocks[b], kCounts[b], visible.first[b], visible.end[b]);
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::int64_t from = visible.first[b].empty() ? 0 : visible.first[b][r];
      const std::int64_t to = visible.end[b].empty() ? kCounts[b] : visible.end[b][r];
      const auto score = [&](std::int64_t key) {
        return blocks[b][static_cast<std::size_t>(key * kRows) + r];
      };
      float max = before[r];
      for (std::int64_t key = from; key < to; ++key)
        max = std::max(max, score(key));
      EXPECT_EQ(rows.max[r], max);
      const double correction = max == before[r] ? 1.0 : std::exp2(before[r] - max);
      EXPECT_NEAR(rows.correction[r], correction, 3e-7);
      sums[r] *= correction;
      for (std::int64_t key = 0; key < kCounts[b]; ++key) {
        const bool is_visible = key >= from && key < to;
        const double want = is_visible ? std::exp2(static_cast<double>(score(key) - max)) : 0.0;
        EXPECT_NEAR(rows.scores[static_cast<std::size_t>(key * kRows) + r], want, 3e-7 * want);
        sums[r] += want;
      }
      EXPECT_NEAR(rows.sum[r], sums[r], 1e-6 * sums[r]);
    }
  }
}

TEST_P(AttentionTest, SoftmaxHasTheSameBitsAtEveryWidthAndLevel) {
  const Visibility visible(kRows);
  const std::vector<Floats> blocks = three_blocks();
  Softmax all(kRows);
  Softmax other_level(kRows);
  for (std::size_t b = 0; b < 3; ++b) {
    all.add(math(), blocks[b], kCounts[b], visible.first[b], visible.end[b]);
    other_level.add(equal(), blocks[b], kCounts[b], visible.first[b], visible.end[b]);
  }
  EXPECT_TRUE(same_bits(all.sum, other_level.sum));
  EXPECT_TRUE(same_bits(all.max, other_level.max));
  EXPECT_TRUE(same_bits(all.correction, other_level.correction));
  for (const std::int64_t lanes : {4, 8, 16}) {
    for (std::int64_t first = 0; first < kRows; first += lanes) {
      Softmax some(lanes);
      for (std::size_t b = 0; b < 3; ++b) {
        some.add(math(), columns(blocks[b], kRows, first, lanes), kCounts[b],
                 columns(visible.first[b], first, lanes), columns(visible.end[b], first, lanes));
      }
      for (std::int64_t i = 0; i < lanes; ++i) {
        const auto r = static_cast<std::size_t>(first + i);
        const auto s = static_cast<std::size_t>(i);
        ASSERT_EQ(some.sum[s], all.sum[r]);
        ASSERT_EQ(some.correction[s], all.correction[r]);
        for (std::int64_t key = 0; key < kCounts[2]; ++key) {
          ASSERT_EQ(some.scores[static_cast<std::size_t>(key * lanes + i)],
                    all.scores[static_cast<std::size_t>(key * kRows + first + i)]);
        }
      }
    }
  }
}

TEST_P(AttentionTest, MaskedScoresAreIgnored) {
  for (const std::int64_t width : {4, 8, 16}) {
    const auto lanes = static_cast<std::size_t>(width);
    Floats scores = random_floats(64 * width);
    for (std::size_t i = 10 * lanes; i < scores.size(); ++i)
      scores[i] = i % 2 == 0 ? std::nanf("") : kInfinity;
    Softmax rows(width);
    Ints end(lanes, 10);
    end[1] = 0;
    rows.add(math(), scores, 10, Ints(lanes, 0), end);
    EXPECT_EQ(rows.sum[1], 0.0F);
    EXPECT_EQ(rows.max[1], -kInfinity);
    EXPECT_EQ(rows.correction[1], 1.0F);
    EXPECT_TRUE(std::isfinite(rows.sum[0]));
    EXPECT_FALSE(std::signbit(rows.sum[1]));
  }
}

TEST_P(AttentionTest, MergesPartialSoftmaxStates) {
  constexpr std::int64_t kCols = 37;
  const Floats x = random_floats(3 * kCols);
  const Floats y = random_floats(3 * kCols);
  const auto run = [&](const MathTable& table) {
    Floats acc = x;
    Floats other = y;
    Floats max = {3.0F, -kInfinity, 5.0F};
    Floats sum = {2.0F, 0.0F, 1.5F};
    Floats other_max = {7.5F, 1.0F, -kInfinity};
    Floats other_sum = {1.25F, 4.0F, 0.0F};
    table.softmax_merge({.max = max.data(), .sum = sum.data(), .acc = acc.data()},
                        {.max = other_max.data(), .sum = other_sum.data(), .acc = other.data()}, 3,
                        kCols);
    acc.insert(acc.end(), max.begin(), max.end());
    acc.insert(acc.end(), sum.begin(), sum.end());
    return acc;
  };
  const Floats got = run(math());
  EXPECT_TRUE(same_bits(got, run(equal())));
  const double factor = std::exp2(-4.5);
  for (std::size_t i = 0; i < kCols; ++i) {
    EXPECT_NEAR(got[i], x[i] * factor + y[i], 1e-6);
    EXPECT_EQ(got[kCols + i], y[kCols + i]);
    EXPECT_EQ(got[2 * kCols + i], x[2 * kCols + i]);
  }
  const Floats states(got.end() - 6, got.end());
  EXPECT_EQ(Floats(states.begin(), states.begin() + 3), (Floats{7.5F, 1.0F, 5.0F}));
  EXPECT_NEAR(states[3], 2.0 * factor + 1.25, 1e-6);
  EXPECT_EQ(states[4], 4.0F);
  EXPECT_EQ(states[5], 1.5F);
}

TEST_P(AttentionTest, TransposeScalesAndPads) {
  for (const std::int64_t num_rows : {1, 4, 6, 15}) {
    for (const std::int64_t cols : {1, 4, 11, 64}) {
      const Floats x = random_floats(num_rows * cols);
      std::vector<const float*> rows;
      for (std::int64_t r = 0; r < num_rows; ++r)
        rows.push_back(x.data() + r * cols);
      Floats y(static_cast<std::size_t>(cols * 16), 7.0F);
      math().transpose({.data = rows.data(), .rows = num_rows}, cols, 0.3F, y.data(), 16);
      for (std::int64_t c = 0; c < cols; ++c) {
        for (std::int64_t r = 0; r < 16; ++r) {
          const float inside =
              r < num_rows ? x[static_cast<std::size_t>(r * cols + c)] * 0.3F : 0.0F;
          const float want = r < (num_rows + 3) / 4 * 4 ? inside : 7.0F;
          ASSERT_EQ(y[static_cast<std::size_t>(c * 16 + r)], want) << r << ' ' << c;
        }
      }
    }
  }
}

TEST_P(AttentionTest, DecodedRowsMatchTheCodecs) {
  struct Type {
    DType dtype;
    void (*decode)(StoredRows, float*);
  };
  for (const Type& type :
       {Type{DType::F32, math().decode_f32_rows}, Type{DType::F16, math().decode_f16_rows},
        Type{DType::BF16, math().decode_bf16_rows}}) {
    const quant::Codec& codec = GetParam()->codecs[static_cast<std::size_t>(type.dtype)];
    for (const std::int64_t cols : {1, 7, 16, 30, 64, 100}) {
      constexpr std::int64_t kNumRows = 5;
      const std::size_t stride = bytes_of(type.dtype, cols + 3);
      std::vector<std::byte> bytes(stride * kNumRows);
      std::mt19937 random(3);
      for (std::byte& b : bytes)
        b = static_cast<std::byte>(random());
      Floats got(static_cast<std::size_t>(kNumRows * cols));
      type.decode({.data = bytes.data(),
                   .rows = kNumRows,
                   .cols = cols,
                   .stride = static_cast<std::int64_t>(stride)},
                  got.data());
      Floats want(got.size());
      for (std::int64_t r = 0; r < kNumRows; ++r) {
        codec.decode(bytes.data() + static_cast<std::size_t>(r) * stride, want.data() + r * cols,
                     static_cast<std::size_t>(cols));
      }
      EXPECT_TRUE(same_bits(got, want)) << name(type.dtype) << ' ' << cols;
    }
  }
}

struct CacheRowType {
  DType dtype;
  StoredAttention MathTable::*kernels;
};
constexpr std::array kCacheRowTypes = {
    CacheRowType{DType::F32, &MathTable::attend_f32},
    CacheRowType{DType::F16, &MathTable::attend_f16},
    CacheRowType{DType::BF16, &MathTable::attend_bf16},
    CacheRowType{DType::F8_E4M3, &MathTable::attend_e4m3},
    CacheRowType{DType::Q8_0, &MathTable::attend_q8_0},
    CacheRowType{DType::Q4_0, &MathTable::attend_q4_0},
};

// Cache rows of random values in a random order, with other columns before and after those read.
struct CacheRowsProblem {
  static constexpr std::int64_t kAround = 32;
  std::int64_t count, cols;
  std::int64_t offset, row_bytes;
  std::vector<std::byte> bytes;
  std::vector<const std::byte*> rows;
  Floats decoded;  // [count, cols]

  CacheRowsProblem(const KernelTable& table,
                   DType dtype,
                   std::int64_t num_rows,
                   std::int64_t num_cols)
      : count(num_rows),
        cols(num_cols),
        offset(static_cast<std::int64_t>(bytes_of(dtype, kAround))),
        row_bytes(static_cast<std::int64_t>(bytes_of(dtype, num_cols + 2 * kAround))) {
    const quant::Codec& codec = table.codecs[static_cast<std::size_t>(dtype)];
    bytes.resize(static_cast<std::size_t>(count * row_bytes));
    decoded.resize(static_cast<std::size_t>(count * cols));
    for (std::int64_t r = 0; r < count; ++r) {
      std::byte* const row = bytes.data() + (count - 1 - r) * row_bytes;
      const Floats values = random_floats(cols + 2 * kAround);
      codec.encode(values.data(), row, values.size());
      codec.decode(row + offset, decoded.data() + r * cols, static_cast<std::size_t>(cols));
      rows.push_back(row);
    }
  }
  StoredBlock block() const {
    return {.rows = rows.data(), .count = count, .cols = cols, .offset = offset};
  }
};

TEST_P(AttentionTest, StoredKeysAreTransposed) {
  for (const CacheRowType& type : kCacheRowTypes) {
    const StoredAttention& kernels = math().*type.kernels;
    // Levels with short vectors have neither.
    ASSERT_EQ(kernels.decode_transposed == nullptr, kernels.add_values == nullptr);
    if (kernels.decode_transposed == nullptr) continue;
    for (const std::int64_t count : {1, 15, 16, 33, 64}) {
      const CacheRowsProblem problem(*GetParam(), type.dtype, count, 96);
      Floats got(96 * 64, 7.0F);
      kernels.decode_transposed(problem.block(), got.data(), 64);
      for (std::int64_t c = 0; c < problem.cols; ++c) {
        for (std::int64_t r = 0; r < count; ++r) {
          ASSERT_EQ(got[static_cast<std::size_t>(c * 64 + r)],
                    problem.decoded[static_cast<std::size_t>(r * problem.cols + c)])
              << name(type.dtype) << ' ' << count << ' ' << r << ' ' << c;
        }
      }
    }
  }
}

TEST_P(AttentionTest, StoredValuesHaveTheBitsOfDecodedOnes) {
  for (const CacheRowType& type : kCacheRowTypes) {
    const StoredAttention& kernels = math().*type.kernels;
    if (kernels.add_values == nullptr) continue;
    for (const std::int64_t m : {1, 2, 3, 4, 5, 8, 12, 16}) {
      for (const std::int64_t cols : {32, 96, 160}) {
        const CacheRowsProblem problem(*GetParam(), type.dtype, 37, cols);
        const Floats weights = random_floats(37 * 16);
        const Floats factor = random_floats(m);
        const Floats before = random_floats(m * cols);
        Floats got = before;
        kernels.add_values(problem.block(), {.weights = weights.data(),
                                             .width = 16,
                                             .factor = factor.data(),
                                             .acc = got.data(),
                                             .ld = cols,
                                             .m = m});
        Floats want = before;
        math().product({.a = weights.data(),
                        .a_row = 1,
                        .a_col = 16,
                        .b = problem.decoded.data(),
                        .ldb = cols,
                        .c = want.data(),
                        .ldc = cols,
                        .m = m,
                        .n = cols,
                        .k = 37,
                        .factor = factor.data()});
        ASSERT_TRUE(same_bits(got, want)) << name(type.dtype) << ' ' << m << ' ' << cols;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         AttentionTest,
                         testing::ValuesIn(runnable_kernels().begin(), runnable_kernels().end()),
                         [](const auto& test) { return std::string(test.param->isa); });

}  // namespace
}  // namespace graft::kernels::cpu
