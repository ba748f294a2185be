#include "graft/base/check.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(CheckDeathTest, PrintsTheConditionAndTheMessage) {
  GRAFT_CHECK(true);
  EXPECT_DEATH(GRAFT_CHECK(1 == 2), "check_test.cpp:[0-9]+: check failed: 1 == 2");
  EXPECT_DEATH(GRAFT_CHECK(false, 3, " slots"), "check failed: false 3 slots");
}

}  // namespace
}  // namespace graft
