#include "graft/tokenizer/steps/charsmap.h"

#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "graft/testing/tokenizer.h"

namespace graft::tokenizer {
namespace {

std::string longest(const Charsmap& map, std::string_view text) {
  std::string out;
  return replace_longest(text, map, out) ? out : std::string(text);
}

std::string graphemes(const Charsmap& map, std::string_view text) {
  std::string out;
  return replace_graphemes(text, map, out) ? out : std::string(text);
}

TEST(Charsmap, ReplacesTheLongestEntry) {
  const Charsmap map(
      test::CharsmapWriter(
          {{"ﬁ", "fi"}, {"\t", " "}, {"a", "1"}, {"ab", "2"}, {"abcd", "4"}, {"x", ""}})
          .bytes());
  EXPECT_EQ(longest(map, "ﬁn"), "fin");
  EXPECT_EQ(longest(map, "n\tﬁ"), "n fi");
  EXPECT_EQ(longest(map, "abcdabcab a"), "42c2 1");
  EXPECT_EQ(longest(map, "xyx"), "y");
  EXPECT_EQ(longest(map, "\xEF\xAC\xFF"), "\xEF\xAC\xFF");
  EXPECT_EQ(longest(map, std::string_view("\0a", 2)), std::string_view("\0"
                                                                       "1",
                                                                       2));
  EXPECT_EQ(longest(map, ""), "");
}

// Compares with a naive search, with entries that are prefixes of each other.
TEST(Charsmap, ReplacesAsDefined) {
  std::mt19937_64 random(3);
  const auto word = [&](std::size_t max) {
    std::string out;
    for (std::size_t i = 1 + random() % max; i > 0; --i)
      out += "abc\xC3\xA9"[random() % 5];
    return out;
  };
  for (int round = 0; round < 100; ++round) {
    std::map<std::string, std::string> entries;
    for (int i = 0; i < 12; ++i)
      entries[word(4)] = word(3);
    const Charsmap map(test::CharsmapWriter(entries).bytes());
    const std::string text = word(40);
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::size_t first = 0;
      std::size_t last = 0;
      for (std::size_t length = 1; at + length <= text.size(); ++length) {
        if (!entries.contains(text.substr(at, length))) continue;
        if (first == 0) first = length;
        last = length;
      }
      const auto found = map.longest(std::string_view(text).substr(at));
      const auto shortest = map.shortest(std::string_view(text).substr(at));
      ASSERT_EQ(found.has_value(), last > 0);
      if (!found) continue;
      EXPECT_TRUE(map.begins(text[at]));
      EXPECT_EQ(found->bytes, last);
      EXPECT_EQ(found->replacement, entries[text.substr(at, last)]);
      EXPECT_EQ(shortest->bytes, first);
      EXPECT_EQ(shortest->replacement, entries[text.substr(at, first)]);
    }
  }
}

// The shortest entry replaces a whole grapheme of up to five bytes.
TEST(Charsmap, ReplacesGraphemesLikeHuggingFace) {
  const Charsmap map(test::CharsmapWriter({{"e", "E"}, {"e\u0301", "É"}, {"ﬁ", "fi"}}).bytes());
  EXPECT_EQ(graphemes(map, "e\u0301x"), "Ex");
  EXPECT_EQ(longest(map, "e\u0301x"), "Éx");
  EXPECT_EQ(graphemes(map, "ﬁe"), "fiE");
  EXPECT_EQ(graphemes(map, "e\u0301\u0301\u0301"), "E\u0301\u0301\u0301");
  EXPECT_EQ(graphemes(map, "xyz \xFF"), "xyz \xFF");
}

TEST(Charsmap, RejectsInvalidData) {
  const auto error = [](const std::string& bytes) {
    return test::error_of([&] { const Charsmap map(bytes); });
  };
  EXPECT_EQ(error("abc"), "precompiled_charsmap: 3 bytes, expected at least 4");
  EXPECT_EQ(error(std::string("\x08\0\0\0abcd", 8)),
            "precompiled_charsmap: the trie has 8 bytes, 4 are left");
  const std::map<std::string, std::string> entries = {{"a", "b"}};
  const std::string good = test::CharsmapWriter(entries).bytes();
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(error(good.substr(0, good.size() - 1)),
            "precompiled_charsmap: the replacement at 0 of 1 bytes is not terminated");
}

// Random data must not cause out-of-bounds access.
TEST(Charsmap, SurvivesRandomBytes) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = test::random_bytes(random, 400);
    bytes.resize(bytes.size() / 4 * 4);
    const auto trie_bytes = static_cast<std::uint32_t>(bytes.size());
    // Clear most end-of-entry bits, so that some tables are accepted.
    for (std::size_t i = 1; i < bytes.size(); i += 4)
      bytes[i] = static_cast<char>(bytes[i] & 0x02);
    std::string all(sizeof(trie_bytes), '\0');
    std::memcpy(all.data(), &trie_bytes, sizeof(trie_bytes));
    all += bytes + std::string(200, '\0');
    test::error_of([&] { longest(Charsmap(all), test::random_bytes(random, 200)); });
  }
}

}  // namespace
}  // namespace graft::tokenizer
