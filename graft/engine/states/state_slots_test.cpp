#include "graft/engine/states/state_slots.h"

#include <set>

#include <gtest/gtest.h>

namespace graft::engine {
namespace {

TEST(StateSlots, SequencesAlwaysGetASlot) {
  StateSlots slots(5, 3);
  // Two slots may be reserved; they become snapshots.
  const auto first = slots.reserve();
  const auto second = slots.reserve();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(slots.reserve());
  slots.add_snapshot(11, *first);
  slots.add_snapshot(12, *second);
  std::set<SlotId> used = {*first, *second};
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(used.insert(slots.allocate()).second);
  // The next ones evict snapshots, the least recently used first.
  EXPECT_EQ(slots.use_snapshot(11), *first);
  EXPECT_EQ(slots.allocate(), *second);
  EXPECT_FALSE(slots.has_snapshot(12));
  EXPECT_TRUE(slots.has_snapshot(11));
}

TEST(StateSlots, ReplacesAndDropsSnapshots) {
  StateSlots slots(4, 1);
  const auto first = slots.reserve();
  slots.add_snapshot(7, *first);
  const auto second = slots.reserve();
  slots.add_snapshot(7, *second);
  EXPECT_EQ(slots.num_snapshots(), 1);
  EXPECT_EQ(slots.use_snapshot(7), *second);
  EXPECT_EQ(slots.free_slots().size(), 3U);
  slots.drop_snapshot(99);  // none
  slots.drop_snapshot(7);
  EXPECT_EQ(slots.free_slots().size(), 4U);
  const auto third = slots.reserve();
  slots.free_reserved(*third);
  EXPECT_EQ(slots.free_slots().size(), 4U);
}

TEST(StateSlots, ReservedSlotsOfSequencesCountUntilTheyRun) {
  StateSlots slots(3, 2);
  const auto restored = slots.reserve();
  ASSERT_TRUE(restored);
  EXPECT_FALSE(slots.reserve());
  slots.keep_reserved();
  EXPECT_TRUE(slots.reserve());
  slots.free(*restored);
  EXPECT_EQ(slots.free_slots().size(), 2U);
}

}  // namespace
}  // namespace graft::engine
