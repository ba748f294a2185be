#include "graft/formats/synthetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::formats {
namespace {

TEST(Synthetic, EveryMergeYieldsAToken) {
  const TokenizerData data = synthetic_vocabulary(70000);
  ASSERT_EQ(data.tokens.size(), 70000U);
  ASSERT_EQ(data.types.size(), 70000U);
  const std::set<std::string> tokens(data.tokens.begin(), data.tokens.end());
  EXPECT_EQ(tokens.size(), data.tokens.size());
  ASSERT_EQ(data.merges.size(), 70000U - 257U);
  for (const std::string& merge : data.merges) {
    const auto space = merge.find(' ');
    ASSERT_NE(space, std::string::npos);
    EXPECT_TRUE(tokens.contains(merge.substr(0, space))) << merge;
    EXPECT_TRUE(tokens.contains(merge.substr(0, space) + merge.substr(space + 1))) << merge;
  }
  EXPECT_EQ(data.types.back(), TokenType::Control);
  EXPECT_THROW(synthetic_vocabulary(256), Error);
}

TEST(Synthetic, TensorsHaveTheirShapesAndDiffer) {
  const auto source = make_synthetic(
      "tiny", 300, {{"a.weight", {4, 32}}, {"b.weight", {4, 32}}, {"norm.weight", {32}}});
  ASSERT_EQ(source->tensors().size(), 3U);
  const TensorInfo& a = *source->find("a.weight");
  const TensorInfo& b = *source->find("b.weight");
  EXPECT_EQ(a.data.size(), 4U * 32U * 2U);
  EXPECT_FALSE(std::ranges::equal(a.data, b.data));
  // BF16 near 1 begins with the exponent of 1 or of the binade below.
  for (std::size_t i = 1; i < source->find("norm.weight")->data.size(); i += 2) {
    EXPECT_EQ(source->find("norm.weight")->data[i], std::byte{0x3F});
  }
}

// Sum of the magnitudes of each row, largest first.
std::vector<double> row_sums(const TensorInfo& tensor) {
  const auto* values = reinterpret_cast<const std::uint16_t*>(tensor.data.data());
  std::vector<double> sums(static_cast<std::size_t>(tensor.shape[0]), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.num_elems()); ++i) {
    const auto value = std::bit_cast<float>(std::uint32_t{values[i]} << 16U);
    sums[i / static_cast<std::size_t>(tensor.shape[1])] += std::abs(value);
  }
  std::ranges::sort(sums, std::greater());
  return sums;
}

TEST(Synthetic, SkewsTheRowsOfRouters) {
  const auto source = make_synthetic(
      "tiny", 300,
      {{"even.weight", {64, 256}}, {"a.weight", {64, 256}, 0.5}, {"b.weight", {64, 256}, 0.5}});
  const std::vector<double> even = row_sums(*source->find("even.weight"));
  EXPECT_LT(even.front(), 1.5 * even.back());
  const std::vector<double> skewed = row_sums(*source->find("a.weight"));
  EXPECT_NEAR(skewed.front() / skewed.back(), 8, 2);  // 64^0.5
  EXPECT_FALSE(std::ranges::equal(source->find("a.weight")->data, source->find("b.weight")->data));
}

}  // namespace
}  // namespace graft::formats
