#include "graft/engine/speculation/ngram_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace graft::engine {
namespace {

std::vector<TokenId> letters(std::string_view text) {
  return {text.begin(), text.end()};
}

NgramIndex index_of(std::string_view text) {
  NgramIndex index;
  index.extend(letters(text));
  return index;
}

// The length of the longest suffix that ends before the last token too.
std::int64_t longest_match(const std::vector<TokenId>& tokens) {
  const std::size_t size = tokens.size();
  std::size_t longest = 0;
  for (std::size_t end = 1; end < size; ++end) {
    std::size_t length = 0;
    while (length < end && tokens[end - 1 - length] == tokens[size - 1 - length])
      ++length;
    longest = std::max(longest, length);
  }
  return static_cast<std::int64_t>(longest);
}

TEST(NgramIndex, FindsTheLongestSuffixThatOccurredBefore) {
  EXPECT_EQ(index_of("abcdxbc").match().length, 2);
  EXPECT_EQ(index_of("abcdxbc").match().end, 3);  // abc|dx
  EXPECT_EQ(index_of("abcdxabc").match().length, 3);
  EXPECT_EQ(index_of("abcd").match().length, 0);
  EXPECT_EQ(index_of("").match().length, 0);
  EXPECT_EQ(index_of("aaaa").match().length, 3);
  EXPECT_EQ(index_of("aaaa").match().end, 3);
}

TEST(NgramIndex, ContinuesFromTheOccurrenceThatWasSeenLast) {
  EXPECT_EQ(index_of("abXabYab").match().end, 5);  // abXab|Y
}

TEST(NgramIndex, AgreesWithASearchOfAllPositions) {
  std::mt19937 random(7);
  for (const unsigned num_tokens : {2U, 3U, 10U}) {
    NgramIndex index;
    std::vector<TokenId> tokens;
    for (int i = 0; i < 400; ++i) {
      tokens.push_back(static_cast<TokenId>(random() % num_tokens));
      index.extend({&tokens.back(), 1});
      const NgramIndex::Match match = index.match();
      ASSERT_EQ(match.length, longest_match(tokens)) << "token " << i;
      if (match.length == 0) continue;
      ASSERT_LT(match.end, index.size());
      ASSERT_TRUE(std::equal(tokens.end() - match.length, tokens.end(),
                             tokens.begin() + match.end - match.length))
          << "token " << i;
    }
  }
}

}  // namespace
}  // namespace graft::engine
