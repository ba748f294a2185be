#include "graft/perf/limits.h"

#include <gtest/gtest.h>

namespace graft::perf {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

TEST(Limits, BuffersLeaveMostOfTheMemoryFree) {
  EXPECT_EQ(uncached_bytes(600 * kMiB), 150 * kMiB);
  EXPECT_EQ(uncached_bytes(1 * kMiB), 16 * kMiB);
  EXPECT_GE(uncached_bytes(0), 256 * kMiB);
  EXPECT_EQ(uncached_bytes(std::size_t{1} << 50U), uncached_bytes(0));
}

}  // namespace
}  // namespace graft::perf
