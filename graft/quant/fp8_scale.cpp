#include "graft/quant/fp8_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/quant/codec.h"

namespace graft::quant {
namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += str(i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

std::int64_t product(std::span<const std::int64_t> shape) {
  std::int64_t total = 1;
  for (const std::int64_t size : shape)
    total *= size;
  return total;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

ScaleLayout ScaleLayout::fit(std::span<const std::int64_t> weight_shape,
                             std::span<const std::int64_t> scale_shape,
                             std::int64_t block_rows,
                             std::int64_t block_cols) {
  if (weight_shape.empty() || product(weight_shape) <= 0 || block_rows <= 0 || block_cols <= 0) {
    fail("scales: weight ", shape_text(weight_shape), " with blocks of ", block_rows, " x ",
         block_cols, " is empty or has an invalid block size");
  }
  const std::size_t dims = weight_shape.size();
  const std::int64_t cols = weight_shape.back();
  const std::int64_t rows = product(weight_shape.first(dims - 1));
  const std::int64_t matrix_rows = dims == 1 ? 1 : weight_shape[dims - 2];
  ScaleLayout layout{.num_rows = rows, .row_elems = cols, .matrix_rows = matrix_rows};

  if (product(scale_shape) == 1) {
    layout.tile_rows = rows;
    layout.tile_cols = cols;
    layout.scale_cols = 1;
    layout.matrix_rows = rows;
    return layout;
  }

  std::vector<std::int64_t> per_row(weight_shape.begin(), weight_shape.end() - 1);
  const bool is_per_row = std::ranges::equal(scale_shape, per_row);
  per_row.push_back(1);
  if (is_per_row || std::ranges::equal(scale_shape, per_row)) {
    layout.tile_rows = 1;
    layout.tile_cols = cols;
    layout.scale_cols = 1;
    return layout;
  }

  std::vector<std::int64_t> tiles(weight_shape.begin(), weight_shape.end());
  tiles.back() = ceil_div(cols, block_cols);
  if (dims > 1) tiles[dims - 2] = ceil_div(matrix_rows, block_rows);
  if (!std::ranges::equal(scale_shape, tiles)) {
    fail("scales: weight ", shape_text(weight_shape), " needs a scale shape of [1], ",
         shape_text(per_row), " (per row) or ", shape_text(tiles), " (blocks of ", block_rows,
         " x ", block_cols, "), got ", shape_text(scale_shape));
  }
  layout.tile_rows = std::min(block_rows, matrix_rows);
  layout.tile_cols = std::min(block_cols, cols);
  layout.scale_cols = tiles.back();
  return layout;
}

std::int64_t ScaleLayout::num_scales() const {
  return num_rows / matrix_rows * ceil_div(matrix_rows, tile_rows) * scale_cols;
}

std::int64_t ScaleLayout::scale_row(std::int64_t row) const {
  return row / matrix_rows * ceil_div(matrix_rows, tile_rows) + row % matrix_rows / tile_rows;
}

void ScaleLayout::apply(float* rows,
                        std::int64_t row_begin,
                        std::int64_t count,
                        std::span<const float> scales) const {
  GRAFT_CHECK(row_begin >= 0 && row_begin + count <= num_rows, "rows ", row_begin, " + ", count,
              " of ", num_rows);
  GRAFT_CHECK(static_cast<std::int64_t>(scales.size()) == num_scales(), scales.size(),
              " scales for a layout of ", num_scales());
  for (std::int64_t row = row_begin; row < row_begin + count; ++row) {
    const float* row_scales = scales.data() + scale_row(row) * scale_cols;
    for (std::int64_t tile = 0; tile < scale_cols; ++tile) {
      const float scale = row_scales[tile];
      const std::int64_t end = std::min(row_elems, (tile + 1) * tile_cols);
      for (std::int64_t col = tile * tile_cols; col < end; ++col)
        rows[col] *= scale;
    }
    rows += row_elems;
  }
}

void decode_scales(DType dtype, const std::byte* data, std::span<float> out) {
  if (dtype != DType::U8)
    return reference_codecs()[static_cast<std::size_t>(dtype)].decode(data, out.data(), out.size());
  constexpr int kBias = 127;
  constexpr int kNan = 255;
  for (float& value : out) {
    const int exponent = std::to_integer<int>(*data++);
    value = exponent == kNan ? std::numeric_limits<float>::quiet_NaN()
                             : std::ldexp(1.0F, exponent - kBias);
  }
}

}  // namespace graft::quant
