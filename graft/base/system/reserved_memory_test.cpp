#include "graft/base/system/reserved_memory.h"

#include <cstring>

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

TEST(ReservedMemory, CommitsPagesOnWrite) {
  const ReservedMemory memory(std::size_t{64} << 30U);  // may exceed the memory of the machine
  EXPECT_EQ(memory.size(), std::size_t{64} << 30U);
  std::memset(memory.data() + 100 * kMiB, 1, kMiB);
  EXPECT_EQ(memory.data()[100 * kMiB + 5], std::byte{1});
  EXPECT_EQ(memory.data()[7], std::byte{0});
}

TEST(ReservedMemory, ReleasesWholePages) {
  const ReservedMemory memory(8 * kMiB);
  std::memset(memory.data(), 1, 8 * kMiB);
  const std::size_t before = memory.committed_bytes();
  EXPECT_EQ(before, 8 * kMiB);
  memory.release(kMiB + 1, 4 * kMiB);
  // The pages at both ends lie only partly inside and stay.
  EXPECT_LE(memory.committed_bytes(), before - 4 * kMiB + 8192);
  EXPECT_LT(memory.committed_bytes(), before);
  EXPECT_EQ(memory.data()[kMiB], std::byte{1});
  EXPECT_EQ(memory.data()[5 * kMiB + 1], std::byte{1});
  EXPECT_EQ(memory.data()[3 * kMiB], std::byte{0});
  memory.release(8 * kMiB - 10, 100);  // less than a page: nothing is released
  EXPECT_EQ(memory.data()[8 * kMiB - 1], std::byte{1});
}

TEST(ReservedMemory, MovesAndMayBeEmpty) {
  ReservedMemory first(kMiB);
  first.data()[3] = std::byte{7};
  ReservedMemory second = std::move(first);
  EXPECT_EQ(second.data()[3], std::byte{7});
  second = ReservedMemory();
  EXPECT_EQ(second.data(), nullptr);
  EXPECT_EQ(second.committed_bytes(), 0U);
}

}  // namespace
}  // namespace graft
