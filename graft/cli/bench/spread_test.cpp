#include "graft/cli/bench/spread.h"

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

TEST(Spread, OfOneValueIsThatValue) {
  const Spread one = spread_of({3});
  EXPECT_EQ(one.mean, 3);
  EXPECT_EQ(one.deviation, 0);
  EXPECT_EQ(one.median, 3);
  EXPECT_EQ(one.min, 3);
  EXPECT_EQ(one.max, 3);
}

TEST(Spread, OfUnsortedValues) {
  const Spread odd = spread_of({9, 2, 4});
  EXPECT_EQ(odd.mean, 5);
  EXPECT_DOUBLE_EQ(odd.deviation * odd.deviation, (16 + 9 + 1) / 2.0);
  EXPECT_EQ(odd.median, 4);
  EXPECT_EQ(odd.min, 2);
  EXPECT_EQ(odd.max, 9);
  EXPECT_EQ(spread_of({8, 1, 2, 3}).median, 2.5);
}

TEST(Spread, RatiosAreElementwise) {
  // Per-round ratios cancel a machine that is slow in one round.
  EXPECT_EQ(ratios({10, 20}, {5, 10}), (std::vector<double>{2, 2}));
  EXPECT_EQ(spread_of(ratios({10, 30, 90}, {10, 10, 10})).median, 3);
}

}  // namespace
}  // namespace graft::cli
