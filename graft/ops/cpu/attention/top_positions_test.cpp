#include "graft/ops/cpu/attention/top_positions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace graft::ops::cpu {
namespace {

std::vector<std::int32_t> top(const std::vector<float>& scores, std::size_t count) {
  std::vector<std::uint32_t> keys;
  std::vector<std::int32_t> out(count, 77);
  select_top_positions(scores, keys, out);
  return out;
}

using Positions = std::vector<std::int32_t>;

TEST(TopPositions, SelectsAllOfShortContexts) {
  EXPECT_EQ(top({3, 1, 2}, 5), (Positions{0, 1, 2, -1, -1}));
  EXPECT_EQ(top({3, 1, 2}, 3), (Positions{0, 1, 2}));
  EXPECT_EQ(top({}, 2), (Positions{-1, -1}));
}

TEST(TopPositions, PrefersEarlierPositionsAmongEqualScores) {
  EXPECT_EQ(top({0, 5, 0, 0, 7, 0}, 3), (Positions{0, 1, 4}));
  EXPECT_EQ(top({0, 0, 0, 0}, 2), (Positions{0, 1}));
  EXPECT_EQ(top({-1, -0.0F, 0.0F, -1, 0.0F}, 2), (Positions{1, 2}));
  EXPECT_EQ(top({-3, -2, -2, -1}, 2), (Positions{1, 3}));
}

TEST(TopPositions, OrdersInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(top({1, -infinity, infinity, 2}, 2), (Positions{2, 3}));
  EXPECT_EQ(top({1, 2, std::abs(std::nanf(""))}, 1), (Positions{2}));
}

TEST(TopPositions, MatchAStableSort) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> level(-4, 4);  // many equal scores
  for (const std::size_t size : {17U, 100U, 1000U}) {
    std::vector<float> scores(size);
    for (float& score : scores)
      score = static_cast<float>(level(random));
    Positions order(size);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    for (const std::size_t count : {1U, 16U}) {
      Positions want(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
      std::ranges::sort(want);
      EXPECT_EQ(top(scores, count), want) << size << ' ' << count;
    }
  }
}

}  // namespace
}  // namespace graft::ops::cpu
