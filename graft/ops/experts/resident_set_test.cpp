#include "graft/ops/experts/resident_set.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace graft::ops {
namespace {

using Experts = std::vector<std::int64_t>;

TEST(ResidentSet, StartsWithTheFirstExpertsOrTheMostFrequent) {
  ResidentSet set(6, 3);
  EXPECT_EQ(set.choose({}), (Experts{0, 1, 2}));
  const std::vector<std::uint64_t> pairs = {1, 7, 0, 7, 9, 2};
  EXPECT_EQ(set.choose(pairs), (Experts{4, 1, 3}));
  EXPECT_EQ(set.residents(), (Experts{1, 3, 4}));
}

TEST(ResidentSet, SwapsTheColdestForTheHottest) {
  ResidentSet set(4, 2);
  set.choose({});
  set.count(0, 5);
  set.count(1, 2);
  set.count(2, 20);
  set.count(3, 40);
  const auto first = set.begin_swap();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(*first, (ResidentSet::Swap{.slot = 1, .out = 1, .in = 3}));
  EXPECT_FALSE(set.is_resident(1));
  EXPECT_FALSE(set.is_resident(3));  // still being copied
  const auto second = set.begin_swap();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(*second, (ResidentSet::Swap{.slot = 0, .out = 0, .in = 2}));
  set.finish(*first);
  set.finish(*second);
  EXPECT_EQ(set.residents(), (Experts{2, 3}));
  EXPECT_FALSE(set.begin_swap().has_value());
}

TEST(ResidentSet, LeavesTheSlotOfAFailedCopyEmpty) {
  ResidentSet set(3, 2);
  set.choose({});
  set.count(2, 20);
  const auto failed = set.begin_swap();
  ASSERT_TRUE(failed.has_value());
  set.abandon(*failed);
  EXPECT_EQ(set.residents(), (Experts{1}));
  const auto next = set.begin_swap();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(*next, (ResidentSet::Swap{.slot = 1, .out = 1, .in = 2}));
}

TEST(ResidentSet, KeepsExpertsThatAreNearlyAsHot) {
  ResidentSet set(2, 1);
  set.choose({});
  set.count(0, 100);
  set.count(1, 120);
  EXPECT_FALSE(set.begin_swap().has_value());
  set.count(1, 11);
  EXPECT_TRUE(set.begin_swap().has_value());
}

TEST(ResidentSet, ForgetsOldChoices) {
  ResidentSet set(2, 1);
  set.choose({});
  set.count(0, 1000);
  set.fade(20480);  // ten half-lives: counts as about one
  set.count(1, 12);
  const auto swap = set.begin_swap();
  ASSERT_TRUE(swap.has_value());
  EXPECT_EQ(swap->in, 1);
}

TEST(ResidentSet, CountsForALongTimeWithoutOverflow) {
  ResidentSet set(2, 1);
  set.choose({});
  for (int step = 0; step < 3000; ++step) {
    set.fade(1024);
    set.count(1, 8);
  }
  EXPECT_TRUE(set.begin_swap().has_value());
}

TEST(ResidentSet, NeverSwapsWithoutOrWithAllSlots) {
  for (const std::int64_t num_slots : {0, 3}) {
    ResidentSet set(3, num_slots);
    EXPECT_EQ(set.choose({}).size(), static_cast<std::size_t>(num_slots));
    set.count(2, 100);
    EXPECT_FALSE(set.begin_swap().has_value());
  }
}

}  // namespace
}  // namespace graft::ops
