#include "graft/quant/fp8_scale.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::quant {
namespace {

using Shape = std::vector<std::int64_t>;

ScaleLayout fit(const Shape& weight, const Shape& scale, std::int64_t block = 128) {
  return ScaleLayout::fit(weight, scale, block, block);
}

// All rows scaled in two calls, the second of which begins in the middle of a tile.
std::vector<float> ones_scaled(const ScaleLayout& layout, const std::vector<float>& scales) {
  const std::int64_t split = layout.num_rows / 3;
  std::vector<float> rows(static_cast<std::size_t>(layout.num_rows * layout.row_elems), 1.0F);
  layout.apply(rows.data(), 0, split, scales);
  layout.apply(rows.data() + split * layout.row_elems, split, layout.num_rows - split, scales);
  return rows;
}

std::vector<float> counting(std::int64_t n) {
  std::vector<float> scales;
  for (std::int64_t i = 0; i < n; ++i)
    scales.push_back(static_cast<float>(i + 1));
  return scales;
}

TEST(ScaleLayout, OneScaleForTheTensor) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}}) {
    const ScaleLayout layout = fit({6, 5}, shape);
    EXPECT_EQ(layout.num_scales(), 1);
    EXPECT_EQ(ones_scaled(layout, {3.0F}), std::vector<float>(30, 3.0F));
  }
}

TEST(ScaleLayout, OneScalePerRow) {
  for (const Shape& shape : {Shape{6}, Shape{6, 1}}) {
    const ScaleLayout layout = fit({6, 5}, shape);
    ASSERT_EQ(layout.num_scales(), 6);
    const std::vector<float> got = ones_scaled(layout, counting(6));
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], static_cast<float>(i / 5 + 1));
  }
}

TEST(ScaleLayout, PartialTilesAtTheEdges) {
  const std::int64_t rows = 300;
  const std::int64_t cols = 260;
  const ScaleLayout layout = fit({rows, cols}, {3, 3});
  ASSERT_EQ(layout.num_scales(), 9);
  const std::vector<float> got = ones_scaled(layout, counting(9));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t tile = r / 128 * 3 + c / 128;
      ASSERT_EQ(got[static_cast<std::size_t>(r * cols + c)], static_cast<float>(tile + 1))
          << r << ' ' << c;
    }
  }
}

TEST(ScaleLayout, TilesOfAnotherSize) {
  const ScaleLayout layout = fit({5, 7}, {3, 4}, 2);
  const std::vector<float> got = ones_scaled(layout, counting(12));
  EXPECT_EQ(got[0], 1.0F);
  EXPECT_EQ(got[6], 4.0F);   // row 0, last column: a tile one wide
  EXPECT_EQ(got[28], 9.0F);  // last row: a tile one high
  EXPECT_EQ(got[34], 12.0F);
}

TEST(ScaleLayout, EveryMatrixOfAStackStartsANewTile) {
  const ScaleLayout layout = fit({2, 3, 2}, {2, 2, 1}, 2);  // rows per matrix: 2 + 1
  ASSERT_EQ(layout.num_scales(), 4);
  const std::vector<float> got = ones_scaled(layout, counting(4));
  const std::vector<float> want_rows = {1, 1, 2, 3, 3, 4};
  for (std::size_t r = 0; r < 6; ++r)
    EXPECT_EQ(got[r * 2 + 1], want_rows[r]) << r;
  const ScaleLayout per_row = fit({2, 3, 4}, {2, 3, 1}, 2);
  EXPECT_EQ(per_row.num_scales(), 6);
  EXPECT_EQ(ones_scaled(per_row, counting(6))[20], 6.0F);
}

TEST(ScaleLayout, MismatchReportsTheShapes) {
  try {
    fit({300, 260}, {3, 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "scales: weight [300, 260] needs a scale shape of [1], [300, 1] (per row) or [3, 3] "
              "(blocks of 128 x 128), got [3, 2]");
  }
  EXPECT_THROW(fit({300, 260}, {260}), Error);
  EXPECT_THROW(fit({300, 260}, {3, 3, 1}), Error);
  EXPECT_THROW(fit({}, {3}), Error);
  EXPECT_THROW(fit({0, 4}, {1}), Error);
  EXPECT_THROW(fit({4, 4}, {1}, 0), Error);
}

}  // namespace
}  // namespace graft::quant
