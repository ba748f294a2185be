// The pieces of texts under the pre-tokenizer names of GGUF files, as their patterns define them.

#include <cstddef>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/formats/pre_tokenizers.h"
#include "graft/testing/tokenizer.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec_gguf.h"
#include "graft/tokenizer/steps/pre_tokenizer.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {
namespace {

class JoinedPieces final : public PieceSink {
 public:
  void piece(std::string_view text) override { out += str(out.empty() ? "" : "|", text); }
  bool emit_cached(std::string_view /*text*/, std::size_t /*num_steps*/) override { return false; }
  std::size_t mark() const override { return 0; }
  void cache(std::string_view /*text*/, std::size_t /*steps*/, std::size_t /*mark*/) override {}

  std::string out;
};

std::string pieces(const std::string& pre, std::string_view text) {
  const test::TokenizerData data = test::byte_level(pre);
  const Vocabulary vocabulary(data);
  JoinedPieces sink;
  RegexScratch scratch;
  PreTokenizer(spec_from_gguf(data, vocabulary, {}).pre_tokenizers).run(text, true, scratch, sink);
  return sink.out;
}

TEST(NamedPreTokenizer, FalconSplitsPunctuationAndThreeDigits) {
  EXPECT_EQ(pieces("falcon", "it's 12345!!  a<=b"), "it|'|s| |123|45|!!| | a|<=|b");
  EXPECT_EQ(pieces("falcon", "x `y` 7"), "x| |`|y|`| 7");
}

TEST(NamedPreTokenizer, BloomSplitsAtPunctuationOnly) {
  EXPECT_EQ(pieces("bloom", "Hi there, you(x) 123!"), "Hi| there|,| you|(|x|)| 123|!");
  EXPECT_EQ(pieces("poro-chat", "a、b。c"), "a|、|b|。|c");
  EXPECT_EQ(pieces("viking", "it 123"), "it| |1|2|3");
}

TEST(NamedPreTokenizer, ChameleonIsolatesImagesDigitsAndPunctuation) {
  EXPECT_EQ(pieces("chameleon", "aIMGIMGABZb <sentinel:7>"), "a|IMGIMGABZ|b| |<|sentinel|:|7|>");
  EXPECT_EQ(pieces("chameleon", "x    y\t12?!"), "x|    |y|\t|1|2|?|!");
}

TEST(NamedPreTokenizer, Jais2HalvesSpaces) {
  EXPECT_EQ(pieces("jais-2", "a       b"), "a|    |  | b");  // seven spaces: four, two, one
  EXPECT_EQ(pieces("jais-2", "a1234"), "a|123|4");
}

TEST(NamedPreTokenizer, SeedCoderSplitsLinesFromPunctuation) {
  EXPECT_EQ(pieces("seed-coder", "x;\n 12"), "x|;|\n| |1|2");
  EXPECT_EQ(pieces("grok-2", "x;\n 12"), "x|;\n| |1|2");
  EXPECT_EQ(pieces("hunyuan", "I'LL"), "I|'LL");
}

TEST(NamedPreTokenizer, LagunaSplitsLinesFirst) {
  EXPECT_EQ(pieces("laguna", "x; \n\n y"), "x|;| |\n\n| y");
  EXPECT_EQ(pieces("grok-2", "x; \n\n y"), "x|;| \n\n| y");
}

TEST(NamedPreTokenizer, MiniCpm5SplitsNumbersFirst) {
  EXPECT_EQ(pieces("minicpm5", "ab 12345"), "ab| |123|45");
}

TEST(NamedPreTokenizer, BailingMoeSplitsEveryLine) {
  EXPECT_EQ(pieces("bailingmoe", "a\n\nb"), "a|\n\n|b");
  EXPECT_EQ(pieces("bailingmoe2", "we'Ve 12"), "we|'Ve| |1|2");
}

TEST(NamedPreTokenizer, ExaoneMoeJoinsWords) {
  EXPECT_EQ(pieces("exaone-moe", "so it goes, 12"), "so it goes|,| |1|2");
}

TEST(NamedPreTokenizer, NumbersAreCutFromTheirEnd) {
  EXPECT_EQ(pieces("superbpe", "ab 1234567 cd"), "ab |1|234|567| cd");
  EXPECT_EQ(pieces("superbpe", "123456"), "123|456");
  EXPECT_EQ(pieces("superbpe", "12"), "12");
  EXPECT_EQ(pieces("superbpe", "१२३४"), "१|२३४");
  EXPECT_EQ(pieces("afmoe", "x12345 y"), "x|12|345| y");
  EXPECT_EQ(pieces("afmoe", "ab中文!cd"), "ab|中文|!cd");
  EXPECT_EQ(pieces("tiny_aya", "in 12345."), "in| |12|345|.");
  // Before a letter there is no word boundary: from the start.
  EXPECT_EQ(pieces("cohere2moe", "12345x"), "123|45|x");
}

TEST(NamedPreTokenizer, YoutuIsolatesScripts) {
  EXPECT_EQ(pieces("youtu", "가나 abc中文，12"), "가나| abc|中文|，|1|2");
}

TEST(NamedPreTokenizer, SharedNamesHaveTheStepsOfTheirDefinition) {
  const std::string text = "It's  9876, e\u0301\n x=1;";
  EXPECT_EQ(pieces("falcon-h1", text), pieces("llama-bpe", text));
  EXPECT_EQ(pieces("smaug-bpe", text), pieces("llama-bpe", text));
  EXPECT_EQ(pieces("mellum2", text), pieces("smollm", text));
  EXPECT_EQ(pieces("gigachat", text), pieces("gpt-2", text));
  EXPECT_EQ(pieces("kanana2", text), pieces("gpt-4o", text));
  EXPECT_EQ(pieces("kormo", text), pieces("qwen2", text));
}

TEST(NamedPreTokenizer, SentencePieceNamesEncodeCharacters) {
  test::TokenizerData data = test::sentencepiece();
  data.model = "gpt2";
  data.pre = "sarvam-moe";
  data.scores.clear();
  data.merges = {"h e", "l l", "▁ he", "he ll", "▁he ll"};
  const Tokenizer tokenizer(data);
  const auto ids = tokenizer.encode("a hell\nÿ", {.add_special = false});
  std::string tokens;
  for (const auto id : ids)
    tokens += str(tokens.empty() ? "" : "|", data.tokens[static_cast<std::size_t>(id)]);
  EXPECT_EQ(tokens, "a|▁hell|<0x0A>|<0xC3>|<0xBF>");
  EXPECT_EQ(tokenizer.decode(ids), "a hell\nÿ");
}

// Every definition is a valid pattern, keeps all text and takes long runs in linear time.
TEST(NamedPreTokenizer, EveryDefinitionKeepsTheText) {
  for (const formats::NamedPreTokenizer& row : formats::named_pre_tokenizers()) {
    if (row.is_sentencepiece) continue;
    SCOPED_TRACE(row.name);
    const Tokenizer tokenizer(test::byte_level(std::string(row.name)));
    for (const char c : {'a', ' ', '7', '\n', 'Z', '!'}) {
      std::string text(20'000, c);
      text += 'x';
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.add_special = false})), text);
    }
    const std::string text = "It's 12345, naïve 中文 가나 \t\r\n  (x)!";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.add_special = false})), text);
  }
}

}  // namespace
}  // namespace graft::tokenizer
