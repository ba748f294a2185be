#include "graft/base/regex.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft {
namespace {

TEST(Regex, SearchesAnywhereUnlessAnchored) {
  EXPECT_TRUE(Regex("self_attn").search("model.layers.3.self_attn.q_proj"));
  EXPECT_FALSE(Regex("^self_attn").search("model.layers.3.self_attn"));
  EXPECT_TRUE(Regex("self_attn$").search("model.layers.3.self_attn"));
  EXPECT_FALSE(Regex("self_attn$").search("model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(Regex("").search(""));
  EXPECT_FALSE(Regex("^model$").search("model.norm"));
}

TEST(Regex, ReadsDigitRanges) {
  const Regex regex(R"(^model\.layers\.(0|[1-9]|[12][0-9])\.)");
  EXPECT_TRUE(regex.search("model.layers.0.mlp"));
  EXPECT_TRUE(regex.search("model.layers.29.mlp"));
  EXPECT_FALSE(regex.search("model.layers.30.mlp"));
  EXPECT_FALSE(regex.search("model.layers.29"));
}

TEST(Regex, LooksAhead) {
  const Regex regex(R"(^model\.layers\.(?!.*self_attn\.kv_b_proj).*$)");
  EXPECT_TRUE(regex.search("model.layers.3.self_attn.q_b_proj"));
  EXPECT_FALSE(regex.search("model.layers.3.self_attn.kv_b_proj"));
  EXPECT_TRUE(Regex("(?<=layers\\.)3").search("model.layers.3"));
}

TEST(Regex, KnowsUnicode) {
  EXPECT_TRUE(Regex("^.$").search("é"));
  EXPECT_TRUE(Regex("^\\w$").search("é"));
  EXPECT_TRUE(Regex("(?i)MODEL").search("model"));
}

TEST(Regex, SaysWhereAPatternIsWrong) {
  try {
    Regex("^model.(layers");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "at 14: missing closing parenthesis");
  }
  EXPECT_THROW(Regex("[z-a]"), Error);
  EXPECT_THROW(Regex("\xff"), Error);
  EXPECT_THROW(Regex(std::string(100'000, 'a')), Error);
  EXPECT_THROW(Regex("\\C"), Error);
}

TEST(Regex, GivesUpOnCatastrophicPatterns) {
  EXPECT_THROW(Regex("^(a+)+$").search(std::string(60, 'a') + "b"), Error);
  EXPECT_THROW(Regex("^(a|aa|a.)+c$").search(std::string(200, 'a') + "cb"), Error);
}

TEST(Regex, RefusesToSearchBrokenText) {
  EXPECT_THROW(Regex("a").search("\xff"), Error);
}

}  // namespace
}  // namespace graft
