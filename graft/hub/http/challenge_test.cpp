#include "graft/hub/http/challenge.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::hub {
namespace {

TEST(Challenge, NamesTheUrlOfTokens) {
  EXPECT_EQ(
      token_url(R"(Bearer realm="https://a.b/token",service="a.b",scope="repository:x/y:pull")"),
      "https://a.b/token?service=a.b&scope=repository%3Ax/y%3Apull");
  EXPECT_EQ(token_url(R"(bearer Realm="http://a/t?x=1", Service="s")"), "http://a/t?x=1&service=s");
  for (const char* other : {"", "Bearer", R"(Basic realm="https://a.b/token")",
                            R"(Bearer realm="Authentication required", charset="UTF-8")",
                            R"(Bearer realm="file:///etc/passwd")", R"(Bearer realm="https://a)",
                            R"(Bearer service="s")"})
    EXPECT_EQ(token_url(other), std::nullopt) << other;
}

TEST(Challenge, ReadsTokens) {
  EXPECT_EQ(parse_token(R"({"token":"abc","access_token":"d"})", "u"), "abc");
  EXPECT_EQ(parse_token(R"({"access_token":"d"})", "u"), "d");
  const std::string long_token = R"({"token":")" + std::string(20000, 'a') + R"("})";
  for (const std::string& answer :
       {std::string("{}"), std::string("<html>"), std::string(R"({"token":7})"),
        std::string(R"({"token":"a b"})"), std::string(R"({"token":"a\r\nX: y"})"), long_token})
    EXPECT_THROW(parse_token(answer, "u"), Error) << answer.substr(0, 40);
}

TEST(Challenge, ComparesOrigins) {
  EXPECT_EQ(origin_of("https://A.b:8/c?d"), "https://a.b:8");
  EXPECT_EQ(origin_of("http://a"), "http://a");
  EXPECT_EQ(origin_of("a/b"), "");
}

}  // namespace
}  // namespace graft::hub
