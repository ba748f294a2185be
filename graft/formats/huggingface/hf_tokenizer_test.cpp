#include "graft/formats/huggingface/hf_tokenizer.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/formats/huggingface/hf_pre_tokenizer.h"
#include "graft/testing/formats.h"
#include "graft/testing/shared_data.h"

namespace graft::formats {
namespace {

struct Read {
  TokenizerData data;
  std::vector<std::string> warnings;
};

Read read_text(const std::string& tokenizer,
               const std::string& tokenizer_config = "{}",
               const ModelTokens& model = {}) {
  const Json tokenizer_json = parse_json(tokenizer, "test");
  const Json config_json = parse_json(tokenizer_config, "test");
  HfTokenizerExtras extras;
  extras.tokenizer_config = &config_json;
  Read read;
  read.data = read_hf_tokenizer(tokenizer_json, extras, model, "tokenizer.json", read.warnings);
  return read;
}

TEST(HfTokenizer, ReadsSprout) {
  const auto folder = test_data("sprout");
  ModelTokens model;
  model.vocab_size = 8192;
  model.eos_token_ids = {2, 0};
  std::vector<std::string> warnings;
  const TokenizerData data = read_hf_tokenizer_folder(folder, model, warnings);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(data.model, "gpt2");
  EXPECT_EQ(data.pre, "qwen2");
  EXPECT_EQ(data.tokens.size(), 8192U);
  EXPECT_EQ(data.types.size(), 8192U);
  EXPECT_TRUE(data.scores.empty());
  EXPECT_FALSE(data.merges.empty());
  EXPECT_EQ(data.tokens[1], "<|im_start|>");
  EXPECT_EQ(data.types[1], TokenType::Control);
  EXPECT_EQ(data.tokens[3], "<tool_call>");
  EXPECT_EQ(data.types[3], TokenType::UserDefined);
  EXPECT_EQ(data.types[100], TokenType::Normal);
  EXPECT_EQ(data.eos_id, 2);
  EXPECT_EQ(data.eot_id, 0);
  EXPECT_EQ(data.pad_id, 0);
  EXPECT_EQ(data.bos_id, std::nullopt);
  EXPECT_EQ(data.add_bos, false);
  EXPECT_EQ(data.add_space_prefix, false);
  EXPECT_EQ(data.chat_template.find("{%- if tools %}"), 0U);
  EXPECT_FALSE(data.tokenizer_json.empty());
}

constexpr const char* kByteLevel = R"({
  "added_tokens": [{"id": 4, "content": "<s>", "special": true},
                   {"id": 6, "content": "<tool>", "special": false}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aĠb": 3},
            "merges": [["a", "b"], ["a b", "b"]]}})";

TEST(HfTokenizer, FillsHolesAndFindsSpecialTokens) {
  ModelTokens model;
  model.vocab_size = 8;
  const Read read = read_text(kByteLevel, R"({"bos_token": {"content": "<s>"},
      "chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default",
      "template": "D"}]})",
                              model);
  const TokenizerData& data = read.data;
  EXPECT_TRUE(read.warnings.empty());
  EXPECT_EQ(data.model, "gpt2");
  EXPECT_EQ(data.pre, "gpt-2");
  EXPECT_EQ(data.tokens,
            (std::vector<std::string>{"a", "b", "ab", "aĠb", "<s>", "[PAD5]", "<tool>", "[PAD7]"}));
  EXPECT_EQ(data.types[5], TokenType::Unused);
  EXPECT_EQ(data.types[6], TokenType::UserDefined);
  EXPECT_EQ(data.merges, (std::vector<std::string>{"a b", "aĠb b"}));
  EXPECT_EQ(data.bos_id, 4);
  EXPECT_EQ(data.add_bos, true);
  EXPECT_EQ(data.add_eos, false);
  EXPECT_EQ(data.chat_template, "D");
}

TEST(HfTokenizer, DropsTokensPastVocabSize) {
  ModelTokens model;
  model.vocab_size = 5;
  const Read read = read_text(kByteLevel, "{}", model);
  EXPECT_EQ(read.data.tokens.size(), 5U);
  ASSERT_EQ(read.warnings.size(), 1U);
  EXPECT_NE(read.warnings[0].find("1 tokens have ids past vocab_size 5"), std::string::npos);
}

TEST(HfTokenizer, ReadsSentencePieceBpe) {
  const Read read = read_text(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                     {"id": 1, "content": "<s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true,
              "vocab": {"<unk>": 0, "<s>": 1, "<0x00>": 2, "▁a": 3, "a": 4}, "merges": ["▁ a"]}})");
  EXPECT_EQ(read.data.model, "llama");
  EXPECT_EQ(read.data.types,
            (std::vector<TokenType>{TokenType::Unknown, TokenType::Control, TokenType::Byte,
                                    TokenType::Normal, TokenType::Normal}));
  EXPECT_EQ(read.data.scores, (std::vector<float>{0, 0, 0, -3, -4}));
  EXPECT_EQ(read.data.unk_id, 0);
  EXPECT_EQ(read.data.add_space_prefix, true);
}

TEST(HfTokenizer, ReadsUnigram) {
  const Read read = read_text(R"({"model": {"type": "Unigram", "unk_id": 0,
      "vocab": [["<unk>", 0.0], ["▁a", -1.5]]},
      "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never"}})");
  EXPECT_EQ(read.data.model, "t5");
  EXPECT_EQ(read.data.types[0], TokenType::Unknown);
  EXPECT_EQ(read.data.scores, (std::vector<float>{0.0F, -1.5F}));
  EXPECT_EQ(read.data.add_space_prefix, false);
  EXPECT_EQ(read.data.remove_extra_whitespaces, std::nullopt);
}

TEST(HfTokenizer, ReadsTheNormalizerOfUnigram) {
  const auto with = [](const std::string& charsmap) {
    return R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]},
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": ")" +
           charsmap +
           R"("}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}})";
  };
  const Read read = read_text(with("Zm9v"));
  EXPECT_EQ(read.data.precompiled_charsmap, "foo");
  EXPECT_EQ(read.data.remove_extra_whitespaces, true);
  EXPECT_NE(test::error_of([&] { read_text(with("?")); }).find("is not base64"), std::string::npos);
}

TEST(HfTokenizer, WarnsAboutUnsupportedFeatures) {
  const Read split = read_text(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
      "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "my own"}}})");
  EXPECT_EQ(split.data.pre, "default");
  ASSERT_EQ(split.warnings.size(), 1U);
  EXPECT_NE(split.warnings[0].find("split my own"), std::string::npos);
  const Read model = read_text(R"({"model": {"type": "WordPiece", "vocab": {}}})");
  EXPECT_TRUE(model.data.empty());
  ASSERT_EQ(model.warnings.size(), 1U);
  EXPECT_NE(model.warnings[0].find("WordPiece"), std::string::npos);
}

TEST(HfTokenizer, RejectsMalformedFiles) {
  const auto error = [](const std::string& text) {
    return test::error_of([&] { read_text(text); });
  };
  EXPECT_NE(error("[]").find("expected an object"), std::string::npos);
  EXPECT_NE(error("{}").find("model.vocab"), std::string::npos);
  EXPECT_NE(error(R"({"model": {"vocab": {"a": "x"}, "merges": []}})").find("not an integer"),
            std::string::npos);
  EXPECT_NE(error(R"({"model": {"vocab": {"a": 0, "b": 0}, "merges": []}})").find("duplicate id 0"),
            std::string::npos);
  EXPECT_NE(error(R"({"model": {"vocab": {"a": -1}, "merges": []}})").find("id -1"),
            std::string::npos);
  EXPECT_NE(error(R"({"model": {"vocab": {"a": 0}, "merges": ["ab"]}})").find("not a pair"),
            std::string::npos);
  EXPECT_NE(error(R"({"model": {"vocab": {"a": 99999999}, "merges": []}})").find("highest"),
            std::string::npos);
  EXPECT_NE(error(R"({"model": {"vocab": {"a": 0}, "merges": []}, "added_tokens": [{}]})"), "");
  EXPECT_NE(error(R"({"model": {"type": "Unigram", "vocab": [["a"]]}})").find("[token, score]"),
            std::string::npos);
}

TEST(HfTokenizer, MissingTokenizerJsonIsEmpty) {
  const TempDir folder;
  std::vector<std::string> warnings;
  EXPECT_TRUE(read_hf_tokenizer_folder(folder.path(), {}, warnings).empty());
  EXPECT_TRUE(warnings.empty());
  test::write_file(folder / "tokenizer.model", "x");
  EXPECT_TRUE(read_hf_tokenizer_folder(folder.path(), {}, warnings).empty());
  EXPECT_EQ(warnings.size(), 1U);
}

std::optional<std::string_view> pre_of(const std::string& steps,
                                       bool has_nfc = false,
                                       std::string_view token = "") {
  const Json json = parse_json(R"({"type": "Sequence", "pretokenizers": [)" + steps + "]}", "test");
  const NamedPreTokenizer* found = find_pre_tokenizer(
      pre_tokenizer_steps(json), has_nfc, [&](std::string_view known) { return known == token; });
  return found == nullptr ? std::nullopt : std::optional(found->name);
}

TEST(HfPreTokenizer, RecognizesPublishedPreTokenizers) {
  const auto split = [](const std::string& regex) {
    return R"({"type": "Split", "pattern": {"Regex": ")" + regex +
           R"("}, "behavior": "Isolated", "invert": false},)";
  };
  const std::string bytes = R"({"type": "ByteLevel", "use_regex": false})";
  const std::string digits = R"({"type": "Digits", "individual_digits": true},)";
  const std::string llama = split(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|)"
                                  R"(\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|)"
                                  R"(\\s+(?!\\S)|\\s+)") +
                            bytes;
  EXPECT_EQ(pre_of(llama), "llama-bpe");
  EXPECT_EQ(pre_of(llama, false, "[gMASK]"), "glm4");
  // The line breaks may be themselves or escapes.
  const std::string coder = str(split(R"(\\s?\\p{L}+)"), split(R"(\\s?\\p{P}+)"),
                                split("[一-龥ࠀ-一가-퟿]+"), digits, bytes);
  EXPECT_EQ(pre_of(split(R"([\r\n])") + coder), "deepseek-coder");
  EXPECT_EQ(pre_of(split(R"([\\r\\n])") + coder), "deepseek-coder");
  EXPECT_EQ(pre_of(split(R"(\\p{N}{1,3})") + split("[一-龥぀-ゟ゠-ヿ]+") +
                   split(R"([!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|)"
                         R"([^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|)"
                         R"(\\s*[\r\n]+|\\s+(?!\\S)|\\s+)") +
                   bytes),
            "deepseek-v3");
  EXPECT_EQ(pre_of(digits + R"({"type": "ByteLevel"})"), "smollm");
  EXPECT_EQ(pre_of(R"({"type": "ByteLevel"})"), "gpt-2");
  EXPECT_EQ(pre_of(R"({"type": "ByteLevel"})", true), "mpt");
  EXPECT_EQ(pre_of(bytes), std::nullopt);
  EXPECT_EQ(pre_of(""), std::nullopt);
}

}  // namespace
}  // namespace graft::formats
