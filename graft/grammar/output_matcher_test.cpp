#include "graft/grammar/output_matcher.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace graft::grammar {
namespace {

std::vector<TokenId> tokens_of(const TokenBits& bits) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < bits.size() * 32; ++i)
    if ((bits[i / 32] >> i % 32 & 1U) != 0) tokens.push_back(static_cast<TokenId>(i));
  return tokens;
}

std::shared_ptr<Constraint> constraint_of(const std::string& pattern,
                                          const std::vector<std::string>& tokens) {
  return std::make_shared<Constraint>(
      compile({.kind = StructuredOutput::Kind::Regex, .text = pattern}),
      std::make_shared<const TokenTrie>(tokens));
}

TEST(GrammarMatcher, FindsTheAllowedTokens) {
  const std::vector<std::string> tokens = {"a", "ab", "b", "", "abc", "c", "ab", "\xC3", "\xA9"};
  Matcher matcher(constraint_of("(ab)*c|é", tokens));
  EXPECT_EQ(tokens_of(matcher.allowed()), (std::vector<TokenId>{0, 1, 4, 5, 6, 7}));
  EXPECT_FALSE(matcher.accept("b"));
  EXPECT_TRUE(matcher.accept("a"));
  EXPECT_EQ(tokens_of(matcher.allowed()), (std::vector<TokenId>{2}));
  Matcher copy = matcher;
  EXPECT_TRUE(copy.accept("bc"));
  EXPECT_TRUE(copy.can_end());
  EXPECT_FALSE(copy.can_continue());
  EXPECT_TRUE(tokens_of(copy.allowed()).empty());
  EXPECT_FALSE(matcher.can_end());
  EXPECT_TRUE(matcher.can_continue());
}

// The states of a long text do not fit into the cache: matchers move to a new one.
TEST(GrammarMatcher, ContinuesWhenTheCacheIsFull) {
  const auto constraint = constraint_of("[ab]{0,40000}c", {"a", "b", "c"});
  Matcher matcher(constraint);
  const Matcher start = matcher;
  for (int i = 0; i < 39999; ++i)
    ASSERT_TRUE(matcher.accept(i % 3 == 0 ? "a" : "b"));
  EXPECT_EQ(tokens_of(matcher.allowed()), (std::vector<TokenId>{0, 1, 2}));
  EXPECT_TRUE(matcher.accept("a"));
  EXPECT_EQ(tokens_of(matcher.allowed()), (std::vector<TokenId>{2}));
  EXPECT_EQ(tokens_of(start.allowed()), (std::vector<TokenId>{0, 1, 2}));
}

TEST(GrammarMatcher, ChoosesAmongManyTexts) {
  std::string list = R"(["")";
  for (int i = 0; i < 6000; ++i)
    list += ",\"t" + std::to_string(i) + "\"";
  const auto constraint = std::make_shared<Constraint>(
      compile({.kind = StructuredOutput::Kind::Choice, .text = list + "]"}),
      std::make_shared<const TokenTrie>(std::vector<std::string>{"t", "5", "x"}));
  Matcher matcher(constraint);
  EXPECT_TRUE(matcher.can_end());
  EXPECT_TRUE(matcher.accept("t5"));
  EXPECT_EQ(tokens_of(matcher.allowed()), (std::vector<TokenId>{1}));
  EXPECT_TRUE(matcher.accept("999"));
  EXPECT_FALSE(matcher.can_continue());
}

}  // namespace
}  // namespace graft::grammar
