#include "graft/tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/formats/read_tokenizer.h"
#include "graft/testing/shared_data.h"
#include "graft/testing/tokenizer.h"

namespace graft::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

TEST(Tokenizer, AddsAndParsesSpecialTokens) {
  const Tokenizer tokenizer(test::byte_level());
  const TokenId bos = *tokenizer.bos();
  const TokenId eos = *tokenizer.eos();
  const TokenId hello = *tokenizer.find("hello");
  EXPECT_EQ(tokenizer.encode("hello"), (Ids{bos, hello}));
  EXPECT_EQ(tokenizer.encode("hello", {.add_special = false}), Ids{hello});
  EXPECT_EQ(tokenizer.encode("", {.add_special = false}), Ids{});
  EXPECT_EQ(tokenizer.encode(""), Ids{bos});
  EXPECT_EQ(tokenizer.encode("hello<|end|><tool>", {.add_special = false}),
            (Ids{hello, eos, *tokenizer.find("<tool>")}));
  // Text from a user: special tokens are text, other added tokens are still matched.
  const Ids ids = tokenizer.encode("<|end|><tool>", {.add_special = false, .parse_special = false});
  EXPECT_EQ(std::ranges::find(ids, eos), ids.end());
  EXPECT_EQ(ids.back(), *tokenizer.find("<tool>"));
  EXPECT_EQ(tokenizer.decode(ids), "<|end|><tool>");
}

TEST(Tokenizer, LooksUpTheVocabulary) {
  const Tokenizer tokenizer(test::byte_level());
  EXPECT_EQ(tokenizer.vocab_size(), 256 + 14 + 3);
  EXPECT_EQ(tokenizer.token(*tokenizer.find("Ġhello")), "Ġhello");
  EXPECT_EQ(tokenizer.bytes(*tokenizer.find("Ġhello")), " hello");
  EXPECT_EQ(tokenizer.find("nothing"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(*tokenizer.bos()));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.find("<tool>")));
  EXPECT_EQ(tokenizer.end_tokens().size(), 1U);
  for (const TokenId outside : {-1, 100'000}) {
    EXPECT_EQ(tokenizer.token(outside), "");
    EXPECT_EQ(tokenizer.bytes(outside), "");
    EXPECT_FALSE(tokenizer.is_special(outside));
  }
  EXPECT_EQ(tokenizer.decode(Ids{-5, *tokenizer.find("he"), 1 << 30}), "he");
}

TEST(Tokenizer, HandlesSentencePieceSpaces) {
  const Tokenizer tokenizer(test::sentencepiece());
  const EncodeOptions plain = {.add_special = false};
  EXPECT_EQ(tokenizer.encode("hello", plain), Ids{*tokenizer.find("▁hello")});
  EXPECT_EQ(tokenizer.encode(" hello", plain),
            (Ids{*tokenizer.find("▁"), *tokenizer.find("▁hello")}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" hello ")), " hello ");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("hello"), true), "<s> hello");
  // Without the prefix space.
  test::TokenizerData data = test::sentencepiece();
  data.add_space_prefix = false;
  const Tokenizer bare(data);
  EXPECT_EQ(bare.encode(" hello", plain), Ids{*bare.find("▁hello")});
  EXPECT_EQ(bare.decode(bare.encode(" hello")), " hello");
}

// The best-scored token merges first, the leftmost of equal ones.
TEST(Tokenizer, MergesByScore) {
  const Tokenizer tokenizer(test::sentencepiece());
  const auto spelled = [&](std::string_view text) {
    std::string out;
    for (const TokenId id : tokenizer.encode(text, {.add_special = false}))
      out += str(out.empty() ? "" : " ", tokenizer.token(id));
    return out;
  };
  EXPECT_EQ(spelled("aaaa"), "▁ aa aa");
  EXPECT_EQ(spelled("aaa"), "▁ aaa");
  EXPECT_EQ(spelled("the"), "▁the");  // from "he" and "▁t", which score better than "th"
  EXPECT_EQ(spelled("tthe"), "▁t t he");
  EXPECT_EQ(spelled("    "), "▁▁▁▁ ▁");
  EXPECT_EQ(spelled("x中\x80"), "▁ <0x78> 中 <0x80>");
}

TEST(Tokenizer, UnigramMaximizesTheScore) {
  const Tokenizer tokenizer(test::unigram());
  const Ids ids = tokenizer.encode("hello the", {.add_special = false});
  EXPECT_EQ(ids, (Ids{*tokenizer.find("▁hello"), *tokenizer.find("▁the")}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("hello x")), "hello x");
  EXPECT_EQ(tokenizer.encode("").back(), *tokenizer.eos());
}

TEST(Tokenizer, UnigramNormalizesLikeSentencePiece) {
  test::TokenizerData data = test::unigram();
  const auto ids = [&](std::string_view text) {
    return Tokenizer(data).encode(text, {.add_special = false});
  };
  const Ids want = ids("hello the");
  EXPECT_NE(ids("ｈello\tthe"), want);
  data.precompiled_charsmap = test::CharsmapWriter({{"ｈ", "h"}, {"\t", " "}}).bytes();
  EXPECT_EQ(ids("ｈello\tthe"), want);
  EXPECT_NE(ids("hello \tthe "), want);
  data.remove_extra_whitespaces = true;
  EXPECT_EQ(ids("  hello \tthe "), want);
  data.precompiled_charsmap.resize(10);
  EXPECT_EQ(test::error_of([&] { ids(""); }),
            "precompiled_charsmap: the trie has 262144 bytes, 6 are left");
}

class RoundTrip : public testing::TestWithParam<test::TokenizerData> {};

TEST_P(RoundTrip, IsTheIdentity) {
  const Tokenizer tokenizer(GetParam());
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::string text =
        round % 2 == 0 ? test::random_text(random, 30) : test::random_bytes(random, 40);
    for (const bool parse_special : {true, false}) {
      const EncodeOptions options = {.add_special = false, .parse_special = parse_special};
      const Ids ids = tokenizer.encode(text, options);
      EXPECT_EQ(tokenizer.decode(ids, true), text);
      EXPECT_EQ(tokenizer.encode(text, options), ids);  // from the cache
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ByteLevel,
                         RoundTrip,
                         testing::Values(test::byte_level("gpt-2"),
                                         test::byte_level("llama-bpe"),
                                         test::byte_level("deepseek-llm"),
                                         test::byte_level("deepseek-coder"),
                                         test::byte_level("deepseek-v3"),
                                         test::byte_level("tekken"),
                                         test::byte_level("gpt-4o"),
                                         test::byte_level("kimi-k2"),
                                         test::byte_level("smollm"),
                                         test::byte_level("glm4")));

formats::TokenizerData word_pieces() {
  using formats::TokenType;
  formats::TokenizerData data;
  data.model = "bert";
  data.pre = "bert-bge";
  data.tokens = {"[UNK]", "[CLS]", "[SEP]", "▁un",   "▁unhappy",
                 "happy", "ness",  "▁,",    "▁cafe", "▁中"};
  data.types.assign(data.tokens.size(), TokenType::Normal);
  std::fill_n(data.types.begin(), 3, TokenType::Control);
  data.unk_id = 0;
  data.cls_id = 1;
  data.sep_id = 2;
  return data;
}

TEST(Tokenizer, WordPieceTakesTheLongestTokens) {
  const Tokenizer tokenizer(word_pieces());
  EXPECT_EQ(tokenizer.encode("unhappyness"), (Ids{1, 4, 6, 2}));
  const EncodeOptions plain = {.add_special = false};
  EXPECT_EQ(tokenizer.encode("un  unhappy\n", plain), (Ids{3, 4}));
  // One unknown token for the whole word, though it begins with a token.
  EXPECT_EQ(tokenizer.encode("unsung ness,un", plain), (Ids{0, 0, 7, 3}));
  EXPECT_EQ(tokenizer.encode("", plain), Ids{});
  EXPECT_EQ(tokenizer.encode("un\x80", plain), (Ids{3, 0}));
  EXPECT_EQ(tokenizer.encode("un[SEP]un", plain), (Ids{3, 2, 3}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 4, 6, 7, 3, 2}), "unhappyness , un");
}

TEST(Tokenizer, WordPieceNormalizesAsTheFileSays) {
  const EncodeOptions plain = {.add_special = false};
  formats::TokenizerData data = word_pieces();
  EXPECT_EQ(Tokenizer(data).encode("Café,UN\u200b中中", plain), (Ids{8, 7, 3, 9, 9}));
  data.lowercase = false;  // accents as well
  EXPECT_EQ(Tokenizer(data).encode("Café cafe café", plain), (Ids{0, 8, 0}));
  data.strip_accents = true;
  EXPECT_EQ(Tokenizer(data).encode("café Un", plain), (Ids{8, 0}));
}

// jina-embeddings-v2-base-zh.
TEST(Tokenizer, WhitespaceSeparatesWordsOfCharacters) {
  formats::TokenizerData data;
  data.model = data.pre = "whitespace";
  data.tokens = {"a", "b", "中", "文", "ab", "中文", "<unk>"};
  data.types.assign(data.tokens.size(), formats::TokenType::Normal);
  data.types.back() = formats::TokenType::Unknown;
  data.merges = {"a b", "中 文"};
  data.unk_id = 6;
  EXPECT_EQ(Tokenizer(data).encode("ab a b\n中文\u3000中"), (Ids{4, 0, 1, 5, 2}));
  EXPECT_EQ(Tokenizer(data).encode("AB"), (Ids{6, 6}));
  data.lowercase = true;
  EXPECT_EQ(Tokenizer(data).encode("AB"), Ids{4});
}

TEST(Tokenizer, SentencePieceRoundTrip) {
  const Tokenizer tokenizer(test::sentencepiece());
  std::mt19937_64 random(2);
  for (int round = 0; round < 4000; ++round) {
    std::string text =
        round % 2 == 0 ? test::random_text(random, 30) : test::random_bytes(random, 40);
    // A literal ▁ decodes to a space.
    while (text.find("▁") != std::string::npos)
      text.erase(text.find("▁"), 3);
    const Ids ids = tokenizer.encode(text, {.add_special = false, .parse_special = false});
    EXPECT_EQ(tokenizer.decode(ids, true), text);
  }
}

// With a normalizer the round trip returns the normalized text.
TEST(Tokenizer, NormalizesToNfc) {
  const Tokenizer tokenizer(test::byte_level("qwen2"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\u0301 \u1100\u1161\u11a8 \u212b")), "é 각 Å");
  EXPECT_EQ(tokenizer.encode("e\u0301"), tokenizer.encode("é"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\u0301\xFF\u0301x")), "é\xFF\u0301x");
}

TEST(Tokenizer, EncodesLongRuns) {
  constexpr std::size_t kBytes = 1'000'000;
  for (const auto& data : {test::byte_level("gpt-2"), test::byte_level("kimi-k2"),
                           test::byte_level("deepseek-llm"), test::sentencepiece()}) {
    SCOPED_TRACE(data.pre);
    const Tokenizer tokenizer(data);
    for (const char c : {'a', ' ', '7', '\n', 'Z', '\xFF', '!'}) {
      std::string text(kBytes, c);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
      text += 'x';
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(Tokenizer, IsThreadSafe) {
  const Tokenizer tokenizer(test::byte_level("qwen2"));
  std::mt19937_64 random(3);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 200; ++i) {
    texts.push_back(test::random_text(random, 60));
    expected.push_back(tokenizer.encode(texts.back()));
  }
  std::vector<std::thread> threads;
  std::vector<int> num_mismatches(4, 0);
  for (std::size_t t = 0; t < num_mismatches.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::size_t idx = (i * 7 + t * 31) % texts.size();
        num_mismatches[t] += tokenizer.encode(texts[idx]) == expected[idx] ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(num_mismatches, std::vector<int>(4, 0));
}

TEST(Tokenizer, FindsThePreTokenizerByTheNamesOfAFamily) {
  constexpr formats::PreTokenizerName kNames[] = {{"family-name", "qwen2"}};
  const std::string text = "it's 12345 e\u0301";
  const test::TokenizerData named = test::byte_level("family-name");
  EXPECT_EQ(Tokenizer(named, kNames).encode(text),
            Tokenizer(test::byte_level("qwen2")).encode(text));
  EXPECT_EQ(test::error_of([&] { const Tokenizer tokenizer(named); }),
            "pre-tokenizer \"family-name\" is not supported");
}

std::string error_for(const test::TokenizerData& data) {
  return test::error_of([&] { const Tokenizer tokenizer(data); });
}

TEST(Tokenizer, RejectsInvalidVocabularies) {
  test::TokenizerData data = test::byte_level();
  data.tokens[300 - 40] = data.tokens[97];
  EXPECT_EQ(error_for(data), "token \"" + data.tokens[97] + "\" has two ids, 97 and 260");

  data = test::byte_level();
  data.merges.emplace_back("he nothing");
  EXPECT_EQ(error_for(data), "merge 14 \"he nothing\": the vocabulary has no token \"nothing\"");
  data.merges.back() = "e h";
  EXPECT_EQ(error_for(data), "merge 14 \"e h\": the vocabulary has no token \"eh\"");
  data.merges.back() = "eh";
  EXPECT_EQ(error_for(data), "merge 14 \"eh\" is not a pair");
  data.merges.clear();
  EXPECT_EQ(error_for(data), "the tokenizer has no merges");

  data = test::byte_level("no-such-name");
  EXPECT_EQ(error_for(data), "pre-tokenizer \"no-such-name\" is not supported");
  data = test::byte_level();
  data.eos_id = 5000;
  EXPECT_NE(error_for(data).find("EOS is token 5000"), std::string::npos);
  data = test::byte_level();
  data.model = "rwkv";
  EXPECT_NE(error_for(data).find("\"rwkv\" is not supported"), std::string::npos);
  EXPECT_EQ(error_for({}), "the vocabulary is empty");

  data = test::sentencepiece();
  data.scores.pop_back();
  EXPECT_NE(error_for(data).find("scores for"), std::string::npos);
  data.scores.push_back(std::numeric_limits<float>::quiet_NaN());
  EXPECT_NE(error_for(data).find("the score is NaN"), std::string::npos);
}

TEST(Tokenizer, KimiWithoutMergesUsesIdsAsRanks) {
  test::TokenizerData with = test::byte_level("kimi-k2");
  test::TokenizerData without = with;
  without.merges.clear();
  const Tokenizer a(with);
  const Tokenizer b(without);
  std::mt19937_64 random(4);
  for (int round = 0; round < 500; ++round) {
    const std::string text = test::random_text(random, 40);
    EXPECT_EQ(a.encode(text), b.encode(text)) << text;
  }
}

// The same tokenizer from both formats, on prose and on random bytes.
TEST(Tokenizer, HuggingFaceAndGgufAgree) {
  const auto folder = test_data("sprout");
  formats::TokenizerData data = formats::read_tokenizer(folder);
  const Tokenizer from_json(data);
  data.tokenizer_json.clear();
  const Tokenizer from_gguf(data);
  std::mt19937_64 random(5);
  for (int round = 0; round < 3000; ++round) {
    const std::string text =
        round % 4 == 0 ? test::random_bytes(random, 60) : test::random_text(random, 60);
    EXPECT_EQ(from_json.encode(text), from_gguf.encode(text)) << text;
  }
  const Json prompts = read_json_file(folder / "reference.json")["prompts"];
  for (const Json& prompt : prompts) {
    const auto ids = prompt["prompt_ids"].get<Ids>();
    EXPECT_EQ(from_gguf.encode(prompt["prompt"].get<std::string>()), ids);
    EXPECT_EQ(from_gguf.decode(ids, true), from_json.decode(ids, true));
  }
}

}  // namespace
}  // namespace graft::tokenizer
