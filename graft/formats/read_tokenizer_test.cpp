#include "graft/formats/read_tokenizer.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/formats.h"
#include "graft/testing/shared_data.h"

namespace graft::formats {
namespace {

constexpr const char* kTokenizer = R"({"added_tokens": [],
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

TEST(ReadTokenizer, OpensFoldersAndFiles) {
  const TempDir folder;
  test::write_file(folder / "tokenizer.json", kTokenizer);
  // Without config.json the vocabulary is as large as its highest id.
  EXPECT_EQ(read_tokenizer(folder.path()).tokens, (std::vector<std::string>{"a", "b", "ab"}));
  EXPECT_EQ(read_tokenizer(folder / "tokenizer.json").tokenizer_json, kTokenizer);
}

TEST(ReadTokenizer, ErrorsNameTheMissingFile) {
  const TempDir folder;
  const auto error = [&](const std::string& name) {
    return test::error_of([&] { read_tokenizer(folder / name); });
  };
  EXPECT_NE(error("absent").find("absent: no such file or folder"), std::string::npos);
  EXPECT_NE(error(".").find("no tokenizer"), std::string::npos);
  test::write_file(folder / "tokenizer.model", "x");
  EXPECT_NE(error(".").find("tokenizer.model is not supported"), std::string::npos);
  EXPECT_NE(error("tokenizer.model").find("neither GGUF nor"), std::string::npos);
  EXPECT_FALSE(is_vocabulary(folder / "tokenizer.model"));
  EXPECT_FALSE(is_vocabulary(folder / "absent"));
}

TEST(ReadTokenizer, OpensVocabulariesWithoutAModel) {
  const auto path = test_data("tokenizers/gpt-2.gguf");
  EXPECT_TRUE(is_vocabulary(path));
  const TokenizerData data = read_tokenizer(path);
  EXPECT_EQ(data.model, "gpt2");
  EXPECT_EQ(data.tokens.size(), 631U);
}

}  // namespace
}  // namespace graft::formats
