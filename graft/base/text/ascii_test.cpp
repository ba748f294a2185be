#include "graft/base/text/ascii.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(Ascii, ChangesLettersOnly) {
  EXPECT_EQ(lower_case("Q4_K-Z[é"), "q4_k-z[é");
  EXPECT_EQ(lower_case(std::string_view()), "");
}

TEST(Ascii, ComparesWithoutCase) {
  EXPECT_TRUE(equal_ignoring_case("DeepSeek-V3", "deepseek-v3"));
  EXPECT_FALSE(equal_ignoring_case("Q4_K", "Q4_K_M"));
  EXPECT_FALSE(equal_ignoring_case("a@", "a`"));
}

TEST(Ascii, TrimsBothEnds) {
  EXPECT_EQ(trimmed(" \ta b\t", " \t"), "a b");
  EXPECT_EQ(trimmed("a\n", " \t"), "a\n");
  EXPECT_EQ(trimmed(" \t ", " \t"), "");
  EXPECT_EQ(trimmed("", " "), "");
}

}  // namespace
}  // namespace graft
