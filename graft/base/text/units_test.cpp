#include "graft/base/text/units.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text((1U << 20U) - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text(720478535680), "671.0 GiB");
  EXPECT_EQ(bytes_text(UINT64_MAX), "16.0 EiB");
}

TEST(Units, CountsAndDurations) {
  EXPECT_EQ(count_text(8192), "8192");
  EXPECT_EQ(count_text(46.5e6), "46.5 M");
  EXPECT_EQ(count_text(671.03e9), "671.0 B");
  EXPECT_EQ(duration_text(0.42), "0.4 s");
  EXPECT_EQ(duration_text(12.4), "12 s");
  EXPECT_EQ(duration_text(187), "3:07");
  EXPECT_EQ(duration_text(3765), "1:02:45");
}

}  // namespace
}  // namespace graft
