// For tests of kernels that multiply bf16: a product with its reference, and what every such kernel
// keeps.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/table.h"
#include "graft/packing/pack_panel.h"
#include "graft/quant/codec.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cpu::bf16_problem {

inline constexpr std::array kBf16Types = {DType::BF16, DType::F16, DType::F8_E4M3, DType::F8_E5M2};

struct NamedTable {
  std::string_view name;
  const PackedTable* table;
};

inline std::vector<float> decoded(DType type,
                                  const std::vector<std::byte>& bytes,
                                  std::size_t count) {
  std::vector<float> values(count);
  quant::reference_codecs()[static_cast<std::size_t>(type)].decode(bytes.data(), values.data(),
                                                                   count);
  return values;
}

inline std::vector<std::byte> encoded(DType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(bytes_of(type, static_cast<std::int64_t>(values.size())));
  quant::reference_codecs()[static_cast<std::size_t>(type)].encode(values.data(), bytes.data(),
                                                                   values.size());
  return bytes;
}

inline std::vector<float> rounded_to_bf16(const std::vector<float>& values) {
  return decoded(DType::BF16, encoded(DType::BF16, values), values.size());
}

struct Bf16Problem {
  DType type;
  std::int64_t outputs, cols, rows;
  std::vector<std::byte> weights;           // [outputs, cols]
  std::vector<float> scales;                // [outputs, cols / 128]; empty: not scaled
  std::vector<const float*> scales_of_row;  // [outputs]
  std::vector<float> x;                     // [rows, cols]

  Bf16Problem(DType dtype,
              std::int64_t num_outputs,
              std::int64_t num_cols,
              std::int64_t num_rows,
              bool is_scaled)
      : type(dtype), outputs(num_outputs), cols(num_cols), rows(num_rows) {
    std::mt19937 random(static_cast<unsigned>(outputs + cols + rows));
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(outputs * cols));
    for (float& value : values)
      value = normal(random);
    weights = encoded(type, values);
    x.resize(static_cast<std::size_t>(rows * cols));
    for (float& value : x)
      value = normal(random);
    if (!is_scaled) return;
    scales.resize(static_cast<std::size_t>(outputs * cols / 128));
    for (float& scale : scales)
      scale = normal(random);
    for (std::int64_t row = 0; row < outputs; ++row)
      scales_of_row.push_back(scales.data() + row * (cols / 128));
  }

  std::vector<std::byte> pack() const {
    const auto stride = static_cast<std::int64_t>(bytes_of(type, cols));
    const std::int64_t bytes = panel_bytes(packed_format(type), cols);
    const std::int64_t num_panels = (outputs + kPanelRows - 1) / kPanelRows;
    std::vector<std::byte> panels(static_cast<std::size_t>(num_panels * bytes), std::byte{0xa5});
    for (std::int64_t p = 0; p < num_panels; ++p) {
      const std::int64_t first = p * kPanelRows;
      packing::pack_panel(type,
                          {.data = weights.data() + first * stride,
                           .rows = std::min(kPanelRows, outputs - first),
                           .cols = cols,
                           .stride = stride,
                           .scales = scales.empty() ? nullptr : scales_of_row.data() + first,
                           .cols_per_scale = 128},
                          kernels().codecs, panels.data() + p * bytes);
    }
    return panels;
  }

  // Rows [first, first + count) of x times all weights.
  std::vector<float> multiply(const PackedTable& table,
                              std::int64_t first,
                              std::int64_t count) const {
    const PackedKernel& kernel = table.kernels[static_cast<std::size_t>(type)];
    const std::int64_t row_bytes = quantized_row_bytes(packed_format(type), cols);
    std::vector<std::byte> quantized(static_cast<std::size_t>(count * row_bytes));
    for (std::int64_t row = 0; row < count; row += table.tile_rows) {
      std::vector<const float*> some;
      for (std::int64_t r = row; r < std::min(row + table.tile_rows, count); ++r)
        some.push_back(x.data() + (first + r) * cols);
      kernel.quantize(some.data(), static_cast<std::int64_t>(some.size()), cols,
                      quantized.data() + row * row_bytes);
    }
    const std::int64_t ldy = outputs + 3;
    std::vector<float> y(static_cast<std::size_t>(count * ldy), 7.0F);
    kernel.multiply(pack().data(), outputs, cols, quantized.data(), count, y.data(), ldy);
    return y;
  }
};

inline void expect_products(const Bf16Problem& p, const std::vector<float>& got) {
  const std::vector<float> x = rounded_to_bf16(p.x);
  std::vector<float> w = decoded(p.type, p.weights, static_cast<std::size_t>(p.outputs * p.cols));
  if (p.type == DType::F16) w = rounded_to_bf16(w);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float* y = got.data() + row * (p.outputs + 3);
    for (std::int64_t out = 0; out < p.outputs; ++out) {
      double want = 0;
      double size = 0;
      for (std::int64_t i = 0; i < p.cols; ++i) {
        double product = x[static_cast<std::size_t>(row * p.cols + i)];
        product *= w[static_cast<std::size_t>(out * p.cols + i)];
        if (!p.scales.empty()) product *= p.scales_of_row[static_cast<std::size_t>(out)][i / 128];
        want += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(y[out], want, 1e-6 * size) << "row " << row << ", output " << out;
    }
    EXPECT_EQ(y[p.outputs], 7.0F) << "written past the end of the row";
  }
}

inline bool has_scales(DType type) {
  return packed_format(type).scale == PackedFormat::Scale::F32;
}

inline void expect_decoded_weights(const NamedTable& named) {
  struct Size {
    std::int64_t outputs, cols, rows;
  };
  for (const DType type : kBf16Types) {
    for (const Size& size : {Size{1, 128, 1},
                             {16, 256, 16},
                             {17, 384, 17},
                             {32, 128, 32},
                             {50, 640, 3},
                             {40, 1152, 7},
                             {33, 256, 96},
                             {20, 128, 41}}) {
      for (const bool is_scaled : {false, has_scales(type)}) {
        SCOPED_TRACE(std::string(named.name) + " " + std::string(graft::name(type)) + " [" +
                     std::to_string(size.rows) + ", " + std::to_string(size.cols) + "] x " +
                     std::to_string(size.outputs));
        const Bf16Problem problem(type, size.outputs, size.cols, size.rows, is_scaled);
        expect_products(problem, problem.multiply(*named.table, 0, size.rows));
      }
    }
  }
}

inline void expect_batch_invariance(const NamedTable& named) {
  for (const DType type : kBf16Types) {
    const Bf16Problem problem(type, 50, 768, 45, has_scales(type));
    const std::vector<float> all = problem.multiply(*named.table, 0, problem.rows);
    for (const std::int64_t count : {1, 2, 3, 4, 5, 9, 15, 16, 17, 40}) {
      for (std::int64_t first = 0; first + count <= problem.rows; first += count) {
        const std::vector<float> some = problem.multiply(*named.table, first, count);
        EXPECT_EQ(0, std::memcmp(some.data(), all.data() + first * (problem.outputs + 3),
                                 some.size() * sizeof(float)))
            << named.name << " " << graft::name(type) << " rows " << first << " + " << count;
      }
    }
  }
}

// x is a unit vector, so the product is the value of the code, NaN included.
inline void expect_every_fp8_code(const NamedTable& named) {
  for (const DType type : {DType::F8_E4M3, DType::F8_E5M2}) {
    Bf16Problem problem(type, 256, 128, 1, false);
    std::ranges::fill(problem.weights, std::byte{0});
    std::ranges::fill(problem.x, 0.0F);
    problem.x[37] = 1.0F;
    for (std::size_t code = 0; code < 256; ++code)
      problem.weights[code * 128 + 37] = static_cast<std::byte>(code);
    const std::vector<float> want = decoded(type, problem.weights, problem.weights.size());
    const std::vector<float> got = problem.multiply(*named.table, 0, 1);
    for (std::size_t code = 0; code < 256; ++code) {
      const float value = want[code * 128 + 37];
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(got[code])) << named.name << " " << graft::name(type) << " " << code;
      } else {
        EXPECT_EQ(got[code], value) << named.name << " " << graft::name(type) << " " << code;
      }
    }
  }
}

inline void expect_nan_in_its_row(const NamedTable& named) {
  for (const DType type : kBf16Types) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN()}) {
      Bf16Problem problem(type, 16, 256, 2, false);
      problem.x[200] = bad;
      const std::vector<float> y = problem.multiply(*named.table, 0, 2);
      EXPECT_TRUE(std::isnan(y[3])) << named.name << " " << graft::name(type);
      EXPECT_TRUE(std::isfinite(y[19 + 3])) << named.name << " " << graft::name(type);
    }
  }
}

}  // namespace graft::kernels::cpu::bf16_problem
