#include "graft/base/text/base64.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(Base64, DecodesTheTestVectorsOfTheRfc) {
  EXPECT_EQ(base64_decoded(""), "");
  EXPECT_EQ(base64_decoded("Zg=="), "f");
  EXPECT_EQ(base64_decoded("Zm8="), "fo");
  EXPECT_EQ(base64_decoded("Zm9v"), "foo");
  EXPECT_EQ(base64_decoded("Zm9vYmFy"), "foobar");
  EXPECT_EQ(base64_decoded("+/8A"), std::string("\xFB\xFF\0", 3));
}

TEST(Base64, RejectsInvalidText) {
  EXPECT_EQ(base64_decoded("Z"), std::nullopt);
  EXPECT_EQ(base64_decoded("Zm 9"), std::nullopt);
  EXPECT_EQ(base64_decoded("Zg==="), std::nullopt);
}

}  // namespace
}  // namespace graft
