#include "graft/formats/gguf/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "graft/formats/gguf/gguf_file.h"
#include "graft/testing/formats.h"
#include "graft/testing/shared_data.h"

namespace graft::formats {
namespace {

TokenizerData read_file(const std::filesystem::path& path) {
  std::vector<std::string> warnings;
  return read_gguf_tokenizer(GgufFile(path).metadata(), path.string(), warnings);
}

TEST(GgufTokenizer, ReadsPublishedVocabularies) {
  const auto folder = test_data("tokenizers");
  const TokenizerData gpt2 = read_file(folder / "gpt-2.gguf");
  EXPECT_EQ(gpt2.model, "gpt2");
  EXPECT_EQ(gpt2.pre, "gpt-2");
  EXPECT_EQ(gpt2.tokens.size(), 631U);
  EXPECT_EQ(gpt2.merges.size(), 374U);
  const TokenizerData deepseek = read_file(folder / "deepseek-llm.gguf");
  EXPECT_EQ(deepseek.pre, "deepseek-llm");
  EXPECT_EQ(deepseek.tokens.size(), deepseek.types.size());
  const TokenizerData llama = read_file(folder / "llama-spm.gguf");
  EXPECT_EQ(llama.model, "llama");
  EXPECT_EQ(llama.tokens.size(), 664U);
  EXPECT_EQ(llama.scores.size(), 664U);
  EXPECT_EQ(llama.types[0], TokenType::Unknown);
  EXPECT_EQ(llama.types[1], TokenType::Control);
  EXPECT_EQ(llama.types[3], TokenType::Byte);
  EXPECT_EQ(llama.bos_id, 1);
  EXPECT_EQ(llama.eos_id, 2);
}

TEST(GgufTokenizer, RoundTripsTokenizers) {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "qwen2";
  data.tokens = {"a", "b", "ab", "<e>"};
  data.types = {TokenType::Normal, TokenType::Normal, TokenType::Normal, TokenType::Control};
  data.merges = {"a b"};
  data.eos_id = 3;
  data.eot_id = 0;
  data.sep_id = 1;
  data.add_bos = false;
  data.add_space_prefix = true;
  data.chat_template = "{{ x }}";
  GgufMetadata metadata;
  write_gguf_tokenizer(data, metadata);
  EXPECT_EQ(metadata.integer("tokenizer.ggml.seperator_token_id"), 1);
  std::vector<std::string> warnings;
  EXPECT_EQ(read_gguf_tokenizer(metadata, "test", warnings), data);

  data.model = "llama";
  data.scores = {0.0F, -1.0F, -2.5F, 0.0F};
  write_gguf_tokenizer(data, metadata);
  EXPECT_EQ(read_gguf_tokenizer(metadata, "test", warnings), data);

  data.model = "t5";
  data.precompiled_charsmap = std::string("\x04\0\0\0\xFF", 5);
  data.remove_extra_whitespaces = true;
  write_gguf_tokenizer(data, metadata);
  EXPECT_EQ(read_gguf_tokenizer(metadata, "test", warnings), data);

  data.cls_id = 2;
  data.lowercase = true;
  data.strip_accents = false;
  write_gguf_tokenizer(data, metadata);
  EXPECT_EQ(metadata.boolean("tokenizer.ggml.normalizer.lowercase"), true);
  EXPECT_EQ(read_gguf_tokenizer(metadata, "test", warnings), data);
  EXPECT_TRUE(warnings.empty());
}

TEST(GgufTokenizer, CharsmapRequiresUnigramAndByteArray) {
  const std::string key = "tokenizer.ggml.precompiled_charsmap";
  GgufMetadata metadata;
  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", GgufArray::of(std::vector<std::string>{"a"}));
  metadata.set(key, GgufArray{.type = GgufType::U8, .count = 1, .bytes = {std::byte{1}}});
  std::vector<std::string> warnings;
  EXPECT_EQ(read_gguf_tokenizer(metadata, "a.gguf", warnings).precompiled_charsmap, "");
  EXPECT_EQ(warnings,
            std::vector{key + " is ignored: not supported for tokenizer model \"llama\""});
  metadata.set(key, GgufArray::of(std::vector<std::int32_t>{1}));
  EXPECT_EQ(test::error_of([&] { read_gguf_tokenizer(metadata, "a.gguf", warnings); }),
            "a.gguf: metadata key \"" + key + "\" is not an array of bytes");
}

TEST(GgufTokenizer, MissingTokenizerIsEmpty) {
  GgufMetadata metadata;
  std::vector<std::string> warnings;
  EXPECT_TRUE(read_gguf_tokenizer(metadata, "test", warnings).empty());
  write_gguf_tokenizer({}, metadata);
  EXPECT_EQ(metadata.string("tokenizer.ggml.model"), "none");
  EXPECT_EQ(read_gguf_tokenizer(metadata, "test", warnings), TokenizerData());
}

TEST(GgufTokenizer, RejectsArraysOfDifferentLengths) {
  GgufMetadata metadata;
  metadata.set("tokenizer.ggml.tokens", GgufArray::of(std::vector<std::string>{"a", "b"}));
  metadata.set("tokenizer.ggml.token_type", GgufArray::of(std::vector<std::int32_t>{1}));
  std::vector<std::string> warnings;
  const auto error = [&] {
    return test::error_of([&] { read_gguf_tokenizer(metadata, "a.gguf", warnings); });
  };
  EXPECT_EQ(error(),
            "a.gguf: metadata key \"tokenizer.ggml.token_type\" has 1 values for 2 tokens");
  metadata.set("tokenizer.ggml.token_type", GgufArray::of(std::vector<std::int32_t>{1, 9}));
  EXPECT_NE(error().find("type 9"), std::string::npos);
  metadata.set("tokenizer.ggml.token_type", GgufArray::of(std::vector<float>{1, 1}));
  EXPECT_NE(error().find("not an array of integers"), std::string::npos);
  metadata.erase("tokenizer.ggml.token_type");
  metadata.set("tokenizer.ggml.bos_token_id", std::uint32_t{2});
  EXPECT_EQ(read_gguf_tokenizer(metadata, "a.gguf", warnings).bos_id, std::nullopt);
  EXPECT_EQ(warnings.size(), 1U);
}

}  // namespace
}  // namespace graft::formats
