#include "graft/grammar/regex.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/grammar_texts.h"

namespace graft::grammar {
namespace {

using testing::compile_error;
using testing::matches;

struct RegexCase {
  std::string pattern;
  std::vector<std::string> accepted;
  std::vector<std::string> rejected;
};

TEST(GrammarRegex, MatchesWholeTexts) {
  const std::vector<RegexCase> cases = {
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"a|bc|", {"a", "bc", ""}, {"abc", "b"}},
      {"(ab)+c?", {"ab", "abab", "abc"}, {"", "c", "aba"}},
      {"a{2,3}b{2}c{1,}", {"aabbc", "aaabbccc"}, {"abbc", "aabc", "aabb", "aaaabbc"}},
      {"a{,2}", {"a{,2}"}, {"a", ""}},
      {"[a-cx\\-\\]]*", {"", "abcx-]"}, {"d", "\\"}},
      {"[^a-z]", {"A", "é", "€", "😀", "\n"}, {"a", "", "\xC3"}},
      {".", {"x", "ä", "😀"}, {"\n", "", "xx", "\xFF"}},
      {"\\d\\D\\w\\W\\s\\S",
       {"1a_- x",
        "0\xC3\xA9"
        "9\xC2\xA0\tz"},
       {"aa_- x"}},
      {"\\x41\\u00e9\\u{1F600}\\uD83D\\uDE00", {"Aé😀😀"}, {"Aé😀"}},
      {"\\n\\t\\.\\*\\/\\$\\^", {"\n\t.*/$^"}, {"nt.*/$^"}},
      {"(?:x|(?<name>y)|(?P<n>z))", {"x", "y", "z"}, {"xy"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"a", ""}},
      {"^abc$", {"abc"}, {"abcd"}},
      {"(^a|b$|c)", {"a", "b", "c"}, {"ab"}},
      {"a^b", {}, {"ab", "a^b"}},
      {"()", {""}, {"a"}},
      {"[ä-ü]+", {"äöü"}, {"a", "ý"}},
      {"[\\d.-]+", {"1.5-2"}, {"a"}},
  };
  for (const RegexCase& each : cases) {
    const Automaton automaton(regex_match(each.pattern), "regex");
    for (const std::string& text : each.accepted)
      EXPECT_TRUE(matches(automaton, text)) << each.pattern << " must match " << text;
    for (const std::string& text : each.rejected)
      EXPECT_FALSE(matches(automaton, text)) << each.pattern << " must not match " << text;
  }
}

TEST(GrammarRegex, SearchesAnywhere) {
  const std::vector<RegexCase> cases = {
      {"b", {"b", "abc", "ab\nc"}, {"", "ac"}},
      {"^b", {"b", "bc"}, {"ab"}},
      {"b$", {"b", "ab"}, {"bc"}},
      {"^b$", {"b"}, {"bb", "ab"}},
      {"^a|b$", {"a", "axx", "xxb"}, {"xax", "xbx"}},
      {"(^|-)x(-|$)", {"x", "a-x", "x-a", "a-x-b"}, {"ax", "xa", "a-xb"}},
      {"", {"", "anything"}, {}},
  };
  for (const RegexCase& each : cases) {
    const Automaton automaton(regex_search(each.pattern), "regex");
    for (const std::string& text : each.accepted)
      EXPECT_TRUE(matches(automaton, text)) << each.pattern << " must be in " << text;
    for (const std::string& text : each.rejected)
      EXPECT_FALSE(matches(automaton, text)) << each.pattern << " must not be in " << text;
  }
}

TEST(GrammarRegex, RefusesWithThePosition) {
  const auto error = [](const std::string& pattern) {
    return compile_error(StructuredOutput::Kind::Regex, pattern);
  };
  EXPECT_EQ(error("ab(?=c)"), "regex: at 2: lookaround is not supported");
  EXPECT_EQ(error("(a)\\1"), "regex: at 3: backreferences are not supported");
  EXPECT_EQ(error("x\\b"), "regex: at 1: \\b is not supported");
  EXPECT_EQ(error("(a"), "regex: at 0: unmatched (");
  EXPECT_EQ(error("a)"), "regex: at 1: unmatched )");
  EXPECT_EQ(error("[a"), "regex: at 0: unmatched [");
  EXPECT_EQ(error("*a"), "regex: at 0: nothing to repeat");
  EXPECT_EQ(error("a\\"), "regex: at 1: the pattern ends with a backslash");
  EXPECT_EQ(error("a{3,2}"), "regex: at 1: the maximum is below the minimum");
  EXPECT_EQ(error("[z-a]"), "regex: at 2: the range ends before it begins");
  EXPECT_EQ(error("(?i)a"), "regex: at 0: this kind of group is not supported");
  EXPECT_EQ(error("a$b"), "regex: no text matches");
  EXPECT_EQ(error("(a{1000}){1000}"), "");  // the repeated group is a rule
  EXPECT_EQ(error("a{100000}b{100000}c{100000}d"),
            "regex: too large, it needs more than 300000 states");
  EXPECT_NE(error(std::string(10000, '(')), "");
}

// Sets of states instead of a deterministic automaton of 2^20 states.
TEST(GrammarRegex, MatchesWithoutExponentialSize) {
  const Automaton automaton(regex_match("(a|b)*a(a|b){20}"), "regex");
  EXPECT_LT(automaton.num_states(), 200U);
  EXPECT_TRUE(matches(automaton, "bba" + std::string(20, 'b')));
  EXPECT_FALSE(matches(automaton, "bbb" + std::string(20, 'b')));
}

}  // namespace
}  // namespace graft::grammar
