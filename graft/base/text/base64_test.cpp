#include "graft/base/text/base64.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(Base64, DecodesTheTestVectorsOfTheRfc) {
  EXPECT_EQ(base64_decode(""), "");
  EXPECT_EQ(base64_decode("Zg=="), "f");
  EXPECT_EQ(base64_decode("Zm8="), "fo");
  EXPECT_EQ(base64_decode("Zm9v"), "foo");
  EXPECT_EQ(base64_decode("Zm9vYmFy"), "foobar");
  EXPECT_EQ(base64_decode("+/8A"), std::string("\xFB\xFF\0", 3));
}

TEST(Base64, RejectsInvalidText) {
  EXPECT_EQ(base64_decode("Z"), std::nullopt);
  EXPECT_EQ(base64_decode("Zm 9"), std::nullopt);
  EXPECT_EQ(base64_decode("Zg==="), std::nullopt);
}

TEST(Base64, EncodesTheTestVectorsOfTheRfc) {
  EXPECT_EQ(base64_encode(""), "");
  EXPECT_EQ(base64_encode("f"), "Zg==");
  EXPECT_EQ(base64_encode("fo"), "Zm8=");
  EXPECT_EQ(base64_encode("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_encode(std::string("\xFB\xFF\0", 3)), "+/8A");
}

}  // namespace
}  // namespace graft
