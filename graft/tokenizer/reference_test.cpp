// Compares with the ids of reference tokenizers: vocabulary files with test texts, and Sprout.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
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

// Texts with the most bytes per token, and those that normalization shortens.
void expect_bound(const Tokenizer& tokenizer) {
  std::vector<std::string> texts = {std::string(5000, ' '), std::string(5000, 'a')};
  for (const char* unit :
       {"e\u0301", "\u1112\u1161\u11ab", "\u212a", "\uff21", "\u3000", "\t\n "}) {
    texts.emplace_back();
    for (int i = 0; i < 1000; ++i)
      texts.back() += unit;
  }
  TokenId longest = 0;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.bytes(id).size() > tokenizer.bytes(longest).size()) longest = id;
  }
  texts.emplace_back();
  for (int i = 0; i < 1000; ++i)
    texts.back() += tokenizer.bytes(longest);
  for (const std::string& text : texts) {
    const auto num_tokens = static_cast<std::int64_t>(tokenizer.encode(text).size());
    EXPECT_LE(tokenizer.min_tokens(text), num_tokens) << text.substr(0, 20);
  }
}

bool has_all_bytes(const Tokenizer& tokenizer) {
  std::set<char> bytes;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.bytes(id).size() == 1) bytes.insert(tokenizer.bytes(id).front());
  }
  return bytes.size() == 256;
}

void expect_vocabularies(const std::filesystem::path& folder, int expected_files) {
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const formats::TokenizerData data = formats::read_tokenizer(entry.path());
    const Tokenizer tokenizer(data);
    const auto texts = texts_of(entry.path().string() + ".inp");
    const auto ids = ids_of(entry.path().string() + ".out");
    ASSERT_EQ(texts.size(), ids.size());
    EXPECT_GT(texts.size(), 40U);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i], {.add_special = false}), ids[i]) << texts[i];
      // WordPiece drops spaces, accents and capitals.
      if (data.model != "bert") {
        EXPECT_EQ(tokenizer.decode(ids[i]), texts[i]);
      }
      EXPECT_LE(tokenizer.min_tokens(texts[i]), static_cast<std::int64_t>(ids[i].size()));
    }
    expect_bound(tokenizer);
    // The longest tokens of these vocabularies have up to 256 bytes. Without tokens for bytes that
    // UTF-8 does not have, text may be dropped.
    if (has_all_bytes(tokenizer)) {
      EXPECT_GT(tokenizer.min_tokens(std::string(1'000'000, 'x')), 1000);
    }
    ++num_files;
  }
  EXPECT_GE(num_files, expected_files);
}

TEST(Reference, VocabularyFiles) {
  expect_vocabularies(test_data("tokenizers"), 9);
}

TEST(Reference, WholeVocabularyFiles) {
  const auto folder = shared_data("tokenizers");
  GRAFT_REQUIRE_SHARED(folder);
  expect_vocabularies(folder, 3);
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
