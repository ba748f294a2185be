#include "graft/tensor/arena.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

TEST(Arena, AllocationsAreAlignedAndDisjoint) {
  Arena arena;
  struct Allocation {
    std::shared_ptr<std::byte> data;
    std::size_t bytes;
  };
  std::vector<Allocation> allocations;
  for (int i = 0; i < 200; ++i) {
    const std::size_t bytes = (static_cast<std::size_t>(i) * 7919) % (2 * kMegabyte);
    allocations.push_back({.data = arena.allocate(bytes), .bytes = bytes});
    std::fill_n(allocations.back().data.get(), bytes, static_cast<std::byte>(i));
  }
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    const Allocation& allocation = allocations[i];
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(allocation.data.get()) % 64, 0U);
    const auto is_own = [&](std::byte value) { return value == static_cast<std::byte>(i); };
    EXPECT_TRUE(
        std::all_of(allocation.data.get(), allocation.data.get() + allocation.bytes, is_own))
        << i;
  }
}

TEST(Arena, SmallAllocationsShareABufferAndLargeOnesDoNot) {
  Arena arena;
  const auto first = arena.allocate(kMegabyte);
  const auto large = arena.allocate(100 * kMegabyte);
  const auto second = arena.allocate(kMegabyte);
  EXPECT_EQ(second.get() - first.get(), static_cast<std::ptrdiff_t>(kMegabyte));
  EXPECT_FALSE(first.owner_before(second) || second.owner_before(first));
  EXPECT_TRUE(first.owner_before(large) || large.owner_before(first));
}

TEST(Arena, AllocationsOutliveTheArena) {
  std::shared_ptr<std::byte> allocation;
  {
    Arena arena;
    allocation = arena.allocate(100);
    std::fill_n(allocation.get(), 100, std::byte{7});
  }
  EXPECT_EQ(allocation.get()[99], std::byte{7});
  EXPECT_EQ(allocation.use_count(), 1);
}

TEST(Arena, StartsANewBufferWhenTheCurrentIsFull) {
  Arena arena;
  std::vector<std::shared_ptr<std::byte>> allocations;
  for (int i = 0; i < 10; ++i) {
    allocations.push_back(arena.allocate(20 * kMegabyte));
    allocations.back().get()[20 * kMegabyte - 1] = std::byte{1};
  }
  EXPECT_TRUE(allocations.front().owner_before(allocations.back()) ||
              allocations.back().owner_before(allocations.front()));
}

}  // namespace
}  // namespace graft
