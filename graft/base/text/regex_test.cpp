#include "graft/base/text/regex.h"

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

TEST(Regex, SupportsLookaround) {
  const Regex regex(R"(^model\.layers\.(?!.*self_attn\.kv_b_proj).*$)");
  EXPECT_TRUE(regex.search("model.layers.3.self_attn.q_b_proj"));
  EXPECT_FALSE(regex.search("model.layers.3.self_attn.kv_b_proj"));
  EXPECT_TRUE(Regex("(?<=layers\\.)3").search("model.layers.3"));
}

TEST(Regex, MatchesUnicode) {
  EXPECT_TRUE(Regex("^.$").search("é"));
  EXPECT_TRUE(Regex("^\\w$").search("é"));
  EXPECT_TRUE(Regex("(?i)MODEL").search("model"));
}

TEST(Regex, ReportsTheOffsetOfASyntaxError) {
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

TEST(Regex, FailsOnCatastrophicPatterns) {
  EXPECT_THROW(Regex("^(a+)+$").search(std::string(60, 'a') + "b"), Error);
  EXPECT_THROW(Regex("^(a|aa|a.)+c$").search(std::string(200, 'a') + "cb"), Error);
}

TEST(Regex, RejectsInvalidUtf8) {
  EXPECT_THROW(Regex("a").search("\xff"), Error);
}

TEST(Regex, FindsFromAnOffset) {
  const Regex regex(R"((?<=x)\p{L}+|\d)");
  RegexScratch scratch;
  const std::string text = "xäö 7 xß";
  const auto first = regex.find(text, 0, scratch);
  ASSERT_TRUE(first);
  EXPECT_EQ(text.substr(first->begin, first->end - first->begin), "äö");
  const auto second = regex.find(text, first->end, scratch);
  ASSERT_TRUE(second);
  EXPECT_EQ(text[second->begin], '7');
  // Lookbehind sees the text before the offset.
  const auto third = regex.find(text, text.size() - 2, scratch);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->end, text.size());
  EXPECT_FALSE(regex.find(text, text.size(), scratch));
  EXPECT_FALSE(regex.find("", 0, scratch));
  const auto empty = Regex("a*").find("b", 1, scratch);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->begin, 1U);
}

TEST(Regex, FindsLongRunsAndFailsOnCatastrophicPatterns) {
  RegexScratch scratch;
  const std::string run(1'000'000, 'a');
  EXPECT_EQ(Regex(R"((?:(?!b)\w)+)").find(run, 0, scratch)->end, run.size());
  EXPECT_THROW(Regex("(a+)+$").find(std::string(40, 'a') + "!", 0, scratch), Error);
}

}  // namespace
}  // namespace graft
