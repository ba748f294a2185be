#include "graft/kernels/cpu/packed/packed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/kernels/cpu/table.h"
#include "graft/packing/pack_panel.h"

namespace graft::kernels::cpu {
namespace {

// Float weights: see packed_bf16_test.cpp.
std::vector<DType> packed_types() {
  std::vector<DType> types;
  for (const DTypeInfo& row : kDTypes) {
    if (packing::has_packed_layout(row.type) && !packed_format(row.type).as_bf16)
      types.push_back(row.type);
  }
  return types;
}

struct Case {
  std::int64_t outputs = 0;
  std::int64_t cols = 0;
  std::int64_t rows = 0;
  float outlier = 1;  // factor on every 37th value of x
};

// Random blocks of a type without an encoder; blocks are drawn again until their values are finite
// and below 8 in magnitude.
void draw_blocks(DType type, std::mt19937& random, std::span<std::byte> bytes) {
  const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(type)];
  const auto block_bytes = static_cast<std::size_t>(info(type).block_bytes);
  std::vector<float> values(static_cast<std::size_t>(info(type).block_elems));
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    const std::span block = bytes.subspan(at, block_bytes);
    do {
      for (std::byte& byte : block)
        byte = static_cast<std::byte>(random());
      codec.decode(block.data(), values.data(), values.size());
    } while (!std::ranges::all_of(values, [](float value) { return std::abs(value) < 8; }));
  }
}

struct PackedProblem {
  DType type;
  Case c;
  std::vector<std::byte> weights;  // [outputs, cols], as stored in files
  std::vector<float> x;            // [rows, cols]

  PackedProblem(DType dtype, const Case& shape, unsigned seed) : type(dtype), c(shape) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    weights.resize(bytes_of(type, c.outputs * c.cols));
    const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(type)];
    if (codec.encode == nullptr) {
      draw_blocks(type, random, weights);
    } else {
      std::vector<float> values(static_cast<std::size_t>(c.outputs * c.cols));
      for (float& value : values)
        value = normal(random) * 0.1F;
      codec.encode(values.data(), weights.data(), values.size());
    }
    x.resize(static_cast<std::size_t>(c.rows * c.cols));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = normal(random) * (i % 37 == 0 ? c.outlier : 1.0F);
  }

  std::vector<std::byte> pack() const {
    const auto stride = static_cast<std::int64_t>(bytes_of(type, c.cols));
    const std::int64_t bytes = panel_bytes(packed_format(type), c.cols);
    const std::int64_t num_panels = (c.outputs + kPanelRows - 1) / kPanelRows;
    std::vector<std::byte> panels(static_cast<std::size_t>(num_panels * bytes), std::byte{0xa5});
    for (std::int64_t p = 0; p < num_panels; ++p) {
      packing::pack_panel(type,
                          {.data = weights.data() + p * kPanelRows * stride,
                           .rows = std::min(kPanelRows, c.outputs - p * kPanelRows),
                           .cols = c.cols,
                           .stride = stride},
                          kernels().codecs, panels.data() + p * bytes);
    }
    return panels;
  }
};

// Rows [first, first + count) of x, quantized tile by tile.
std::vector<std::byte> quantize_all(const PackedProblem& p,
                                    const PackedTable& table,
                                    std::int64_t first,
                                    std::int64_t count) {
  const PackedKernel& kernel = table.kernels[static_cast<std::size_t>(p.type)];
  const std::int64_t row_bytes = quantized_row_bytes(packed_format(p.type), p.c.cols);
  std::vector<std::byte> quantized(static_cast<std::size_t>(count * row_bytes));
  for (std::int64_t row = 0; row < count; row += table.tile_rows) {
    std::vector<const float*> rows;
    for (std::int64_t r = row; r < std::min(row + table.tile_rows, count); ++r)
      rows.push_back(p.x.data() + (first + r) * p.c.cols);
    kernel.quantize(rows.data(), static_cast<std::int64_t>(rows.size()), p.c.cols,
                    quantized.data() + row * row_bytes);
  }
  return quantized;
}

std::vector<float> multiply(const PackedProblem& p,
                            const PackedTable& table,
                            std::int64_t first,
                            std::int64_t count) {
  const PackedKernel& kernel = table.kernels[static_cast<std::size_t>(p.type)];
  const std::vector<std::byte> panels = p.pack();
  const std::vector<std::byte> quantized = quantize_all(p, table, first, count);
  std::vector<float> y(static_cast<std::size_t>(count * p.c.outputs));
  kernel.multiply(panels.data(), p.c.outputs, p.c.cols, quantized.data(), count, y.data(),
                  p.c.outputs);
  return y;
}

// The reference in double: x quantized to 1/127 of the largest magnitude of each block, weights
// decoded. `size` scales the tolerance: scale * code - min subtracts two numbers as large as the
// largest weight of the row.
struct Expected {
  std::vector<double> y;
  std::vector<double> size;
};

Expected expected(const PackedProblem& p) {
  std::vector<float> w(static_cast<std::size_t>(p.c.outputs * p.c.cols));
  quant::reference_codecs()[static_cast<std::size_t>(p.type)].decode(p.weights.data(), w.data(),
                                                                     w.size());
  std::vector<double> x(p.x.begin(), p.x.end());
  for (std::size_t block = 0; block < x.size(); block += kBlockCols) {
    float largest = 0;
    for (std::size_t i = block; i < block + kBlockCols; ++i)
      largest = std::max(largest, std::abs(p.x[i]));
    for (std::size_t i = block; i < block + kBlockCols; ++i)
      x[i] = std::nearbyint(p.x[i] * (127.0F / largest)) * (largest / 127.0F);
  }
  Expected result;
  for (std::int64_t row = 0; row < p.c.rows; ++row) {
    for (std::int64_t out = 0; out < p.c.outputs; ++out) {
      const std::span weights(w.data() + out * p.c.cols, static_cast<std::size_t>(p.c.cols));
      const auto [low, high] = std::ranges::minmax(weights);
      double sum = 0;
      double size = 0;
      for (std::int64_t i = 0; i < p.c.cols; ++i) {
        const double value = x[static_cast<std::size_t>(row * p.c.cols + i)];
        sum += value * weights[static_cast<std::size_t>(i)];
        size += std::abs(value) * std::max(-low, high);
      }
      result.y.push_back(sum);
      result.size.push_back(size);
    }
  }
  return result;
}

std::vector<Case> cases_of(DType type) {
  const std::int64_t block = info(type).block_elems;
  std::vector<Case> cases = {
      {.outputs = 1, .cols = block, .rows = 1},
      {.outputs = 15, .cols = 2 * block, .rows = 2},
      {.outputs = 16, .cols = 3 * block, .rows = 3, .outlier = 100},
      {.outputs = 17, .cols = 5 * block, .rows = 4},
      {.outputs = 33, .cols = 3 * block, .rows = 5, .outlier = 1e4F},
      {.outputs = 50, .cols = 3 * block, .rows = 7},
      {.outputs = 64, .cols = 4 * block, .rows = 13},
      {.outputs = 40, .cols = 2 * block, .rows = 96},
  };
  if (block == 32) cases.push_back({.outputs = 20, .cols = 37 * block, .rows = 9});
  return cases;
}

std::string label(const KernelTable& table, DType type, const Case& c) {
  return std::string(table.isa) + " " + std::string(name(type)) + " [" + std::to_string(c.rows) +
         ", " + std::to_string(c.cols) + "] x " + std::to_string(c.outputs);
}

TEST(Packed, MatchesTheDecodedWeights) {
  for (const DType type : packed_types()) {
    unsigned seed = 1;
    for (const Case& c : cases_of(type)) {
      const PackedProblem problem(type, c, seed++);
      const Expected want = expected(problem);
      for (const KernelTable* table : runnable_kernels()) {
        const std::vector<float> got = multiply(problem, table->packed, 0, c.rows);
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want.y[i], 2e-6 * want.size[i]) << label(*table, type, c) << " " << i;
      }
    }
  }
}

// The bits of a row do not depend on the other rows of the call.
TEST(Packed, IsBatchInvariant) {
  for (const KernelTable* table : runnable_kernels()) {
    for (const DType type : packed_types()) {
      const Case c = {.outputs = 50, .cols = 512, .rows = 29};
      const PackedProblem problem(type, c, 7);
      const std::vector<float> all = multiply(problem, table->packed, 0, c.rows);
      for (const std::int64_t count : {1, 2, 3, 4, 5, 6, 11}) {
        for (std::int64_t first = 0; first + count <= c.rows; first += count) {
          const std::vector<float> some = multiply(problem, table->packed, first, count);
          EXPECT_EQ(0, std::memcmp(some.data(), all.data() + first * c.outputs,
                                   some.size() * sizeof(float)))
              << label(*table, type, c) << " rows " << first << " + " << count;
        }
      }
    }
  }
}

// table.h selects one of the two by CPU vendor; test both.
TEST(Packed, UnpackingInPlaceGivesTheSameBits) {
  const std::vector<const PackedTable*> variants = packed_variants();
  if (variants.empty()) GTEST_SKIP() << "no level of this CPU has two variants";
  for (const DType type : packed_types()) {
    for (const std::int64_t rows : {1, 5, 12, 13, 29, 96}) {
      const Case c = {.outputs = 50, .cols = 768, .rows = rows, .outlier = 30};
      const PackedProblem problem(type, c, 13);
      const std::vector<float> first = multiply(problem, *variants.front(), 0, rows);
      for (const PackedTable* variant : variants)
        EXPECT_EQ(first, multiply(problem, *variant, 0, rows)) << name(type) << " " << rows;
    }
  }
}

TEST(Packed, LevelsWithFmaGiveTheSameBits) {
  const KernelTable* first = nullptr;
  for (const KernelTable* table : runnable_kernels()) {
    if (table->isa == "scalar") continue;
    if (first == nullptr) {
      first = table;
      continue;
    }
    for (const DType type : packed_types()) {
      for (const std::int64_t rows : {1, 9}) {
        const Case c = {.outputs = 37, .cols = 768, .rows = rows, .outlier = 30};
        const PackedProblem problem(type, c, 11);
        EXPECT_EQ(multiply(problem, first->packed, 0, rows),
                  multiply(problem, table->packed, 0, rows))
            << label(*table, type, c);
      }
    }
  }
  if (first == nullptr) GTEST_SKIP() << "this CPU supports the scalar level only";
}

TEST(Packed, ZerosAndTinyRowsGiveZero) {
  for (const KernelTable* table : runnable_kernels()) {
    for (const DType type : packed_types()) {
      PackedProblem problem(type, {.outputs = 16, .cols = 256, .rows = 1}, 3);
      for (const float value : {0.0F, -0.0F, 1e-38F, std::numeric_limits<float>::denorm_min()}) {
        std::ranges::fill(problem.x, value);
        for (const float y : multiply(problem, table->packed, 0, 1))
          ASSERT_EQ(y, 0.0F) << name(type) << " " << table->isa;
      }
    }
  }
}

TEST(Packed, NanAndInfinityInXGiveNan) {
  for (const KernelTable* table : runnable_kernels()) {
    for (const DType type : packed_types()) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
            -std::numeric_limits<float>::infinity()}) {
        PackedProblem problem(type, {.outputs = 16, .cols = 512, .rows = 2}, 5);
        problem.x[300] = bad;
        const std::vector<float> y = multiply(problem, table->packed, 0, 2);
        EXPECT_TRUE(std::isnan(y[3])) << name(type) << " " << table->isa;
        EXPECT_TRUE(std::isfinite(y[16 + 3])) << name(type) << " " << table->isa;
      }
    }
  }
}

}  // namespace
}  // namespace graft::kernels::cpu
