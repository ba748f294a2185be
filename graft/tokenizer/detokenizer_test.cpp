#include "graft/tokenizer/detokenizer.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/tokenizer.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

const Tokenizer& bytes_tokenizer() {
  static const Tokenizer tokenizer(test::byte_level());
  return tokenizer;
}

Ids ids_of(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special = false});
}

// The returned texts, separated by bars.
std::string pieces(Detokenizer& detokenizer, const Ids& ids) {
  std::string out;
  for (const TokenId id : ids)
    out += detokenizer.push(id) + '|';
  return out + detokenizer.finish();
}

TEST(Detokenizer, NeverSplitsACharacter) {
  Detokenizer detokenizer(bytes_tokenizer());
  EXPECT_EQ(pieces(detokenizer, ids_of(bytes_tokenizer(), "a🚀b")), "a||||🚀|b|");
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const std::string text = test::random_text(random, 30);
    Detokenizer other(bytes_tokenizer(), {.stops = {"lo x", "aab"}, .keep_special = true});
    std::string out;
    for (const TokenId id : ids_of(bytes_tokenizer(), text)) {
      const std::string piece = other.push(id);
      EXPECT_TRUE(is_utf8(piece));
      out += piece;
    }
    out += other.finish();
    if (!other.stop()) {
      EXPECT_EQ(out, text);
    }
  }
}

TEST(Detokenizer, ReplacesEachMaximalInvalidSubpart) {
  const auto shown = [](std::string_view bytes) {
    Detokenizer detokenizer(bytes_tokenizer());
    std::string out;
    for (const TokenId id : ids_of(bytes_tokenizer(), bytes))
      out += detokenizer.push(id);
    return out + detokenizer.finish();
  };
  EXPECT_EQ(shown("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(shown("\xF0\x9F\x9A"), "\uFFFD");              // truncated: one subpart
  EXPECT_EQ(shown("\xF0\x9F\x9Ax"), "\uFFFDx");            // interrupted
  EXPECT_EQ(shown("\xE4\xB8\xE4\xB8\xAD"), "\uFFFD中");    // interrupted by a new character
  EXPECT_EQ(shown("\xC0\xAF"), "\uFFFD\uFFFD");            // never begins a character
  EXPECT_EQ(shown("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
}

TEST(Detokenizer, StopsAtTheEarliestStopString) {
  const auto run = [](const std::string& text, DetokenizerOptions options) {
    Detokenizer detokenizer(bytes_tokenizer(), options);
    std::string out;
    for (const TokenId id : ids_of(bytes_tokenizer(), text))
      out += detokenizer.push(id);
    out += detokenizer.finish();
    return std::pair(out, detokenizer.stop());
  };
  using Found = std::pair<std::string, std::optional<std::size_t>>;
  EXPECT_EQ(run("one two three", {.stops = {"three", "two"}}), Found("one ", 1U));
  EXPECT_EQ(run("one two three", {.stops = {"two"}, .keep_stop = true}), Found("one two", 0U));
  EXPECT_EQ(run("abc", {.stops = {"bcd"}}), Found("abc", std::nullopt));
  EXPECT_EQ(run("xaab", {.stops = {"ab", "aab"}}), Found("x", 1U));
  EXPECT_EQ(run("abab", {.stops = {"ab", "aba"}}), Found("", 0U));  // completed first
  EXPECT_EQ(run("naïve ü", {.stops = {"ü"}}), Found("naïve ", 0U));
  EXPECT_EQ(run("text", {.stops = {""}}), Found("text", std::nullopt));
}

// Text that cannot begin a stop string is returned immediately.
TEST(Detokenizer, HoldsBackOnlyPrefixesOfStopStrings) {
  Detokenizer detokenizer(bytes_tokenizer(), {.stops = {"\n\nx", "ab"}});
  EXPECT_EQ(pieces(detokenizer, ids_of(bytes_tokenizer(), "q\n\n")), "q|||\n\n");
  Detokenizer third(bytes_tokenizer(), {.stops = {"abc"}});
  std::string out;
  for (const char c : std::string("ababd")) {
    const TokenId id = *bytes_tokenizer().find(std::string(1, c));
    out += third.push(id) + '|';
  }
  EXPECT_EQ(out, "||ab||abd|");
}

TEST(Detokenizer, OmitsSpecialTokens) {
  const Tokenizer& tokenizer = bytes_tokenizer();
  const Ids ids = tokenizer.encode("hello<|end|>");
  Detokenizer without(tokenizer);
  EXPECT_EQ(pieces(without, ids), "|hello||");
  Detokenizer with(tokenizer, {.keep_special = true});
  EXPECT_EQ(pieces(with, ids), "<|begin|>|hello|<|end|>|");
}

TEST(Detokenizer, HandlesSentencePieceSpaces) {
  const Tokenizer tokenizer(test::sentencepiece());
  const Ids ids = ids_of(tokenizer, "hello hello");
  Detokenizer after_prompt(tokenizer);
  EXPECT_EQ(pieces(after_prompt, ids), " hello| hello|");
  Detokenizer at_start(tokenizer, {}, true);
  EXPECT_EQ(pieces(at_start, ids), "hello| hello|");
  Detokenizer bytes(tokenizer, {}, true);
  EXPECT_EQ(pieces(bytes, ids_of(tokenizer, "🚀")), "||||🚀|");
  // Streaming returns the same text as decode().
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    const Ids all = ids_of(tokenizer, test::random_text(random, 20));
    Detokenizer stream(tokenizer, {}, true);
    std::string out;
    for (const TokenId id : all)
      out += stream.push(id);
    EXPECT_EQ(out + stream.finish(), replace_invalid_utf8(tokenizer.decode(all)));
  }
}

}  // namespace
}  // namespace graft::tokenizer
