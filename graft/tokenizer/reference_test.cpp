// Compares with the ids of reference tokenizers: vocabulary files with test texts, and Sprout.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/formats/read_tokenizer.h"
#include "graft/testing/shared_data.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Texts separated by a line with a fixed marker.
std::vector<std::string> texts_of(const std::filesystem::path& path) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string all = text_of(path);
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (auto end = all.find(separator); end != std::string::npos; end = all.find(separator, begin)) {
    texts.push_back(all.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return texts;
}

std::vector<std::vector<TokenId>> ids_of(const std::filesystem::path& path) {
  std::istringstream lines(text_of(path));
  std::vector<std::vector<TokenId>> all;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    all.emplace_back(std::istream_iterator<TokenId>(words), std::istream_iterator<TokenId>());
  }
  return all;
}

void expect_vocabularies(const std::filesystem::path& folder) {
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const Tokenizer tokenizer(formats::read_tokenizer(entry.path()));
    const auto texts = texts_of(entry.path().string() + ".inp");
    const auto ids = ids_of(entry.path().string() + ".out");
    ASSERT_EQ(texts.size(), ids.size());
    EXPECT_GT(texts.size(), 40U);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i], {.add_special = false}), ids[i]) << texts[i];
      EXPECT_EQ(tokenizer.decode(ids[i]), texts[i]);
    }
    ++num_files;
  }
  EXPECT_GE(num_files, 3);
}

TEST(Reference, VocabularyFiles) {
  expect_vocabularies(test_data("tokenizers"));
}

TEST(Reference, WholeVocabularyFiles) {
  const auto folder = shared_data("tokenizers");
  GRAFT_REQUIRE_SHARED(folder);
  expect_vocabularies(folder);
}

TEST(Reference, Sprout) {
  const auto folder = test_data("sprout");
  const Tokenizer tokenizer(formats::read_tokenizer(folder));
  const Json reference = read_json_file(folder / "reference.json");
  int num_prompts = 0;
  for (const Json& prompt : reference["prompts"]) {
    EXPECT_EQ(tokenizer.encode(prompt["prompt"].get<std::string>()),
              prompt["prompt_ids"].get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer.decode(prompt["greedy_ids"].get<std::vector<TokenId>>(), true),
              prompt["greedy_text"].get<std::string>());
    ++num_prompts;
  }
  EXPECT_EQ(num_prompts, 24);
}

}  // namespace
}  // namespace graft::tokenizer
