// Compares small tokenizers, each with one feature, with the ids of Hugging Face tokenizers
// (tests/fixtures/tokenizer/README.md describes how they were made).

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/formats/huggingface/hf_tokenizer.h"
#include "graft/testing/shared_data.h"
#include "graft/tokenizer/steps/unicode.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {
namespace {

// Builds the tokenizer.json of a case.
Json composed(const Json& fixture, const Json& entry) {
  Json json = fixture["bases"][entry["base"].get<std::string>()];
  if (entry.contains("with")) json.update(entry["with"]);
  Json& model = json["model"];
  if (entry.contains("model")) model.update(entry["model"]);
  if (model["type"] == "Unigram") return json;
  Json vocab = Json::object();
  int id = 0;
  const Json without = entry.value("without_tokens", Json::array());
  for (const Json& token : model["vocab"]) {
    const bool is_dropped = std::find(without.begin(), without.end(), token) != without.end();
    vocab[is_dropped ? "dropped " + std::to_string(id) : token.get<std::string>()] = id;
    ++id;
  }
  Json merges = Json::array();
  for (const Json& merge : model["merges"]) {
    const auto text = merge.get<std::string>();
    const auto space = text.find(' ');
    const std::string left = text.substr(0, space);
    const std::string right = text.substr(space + 1);
    if (vocab.contains(left) && vocab.contains(right) && vocab.contains(left + right)) {
      merges.push_back({left, right});
    }
  }
  model["vocab"] = vocab;
  model["merges"] = merges;
  return json;
}

Tokenizer tokenizer_of(const Json& json) {
  std::vector<std::string> warnings;
  formats::TokenizerData data = formats::read_hf_tokenizer(json, {}, {}, "fixture", warnings);
  data.tokenizer_json = json.dump();
  return Tokenizer(data);
}

TEST(Fixture, MatchesHuggingFaceTokenizers) {
  const Json fixture = read_json_file(std::filesystem::path(GRAFT_SOURCE_DIR) /
                                      "tests/fixtures/tokenizer/cases.json");
  const auto texts = fixture["texts"].get<std::vector<std::string>>();
  std::size_t num_checked = 0;
  for (const Json& entry : fixture["cases"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const Tokenizer tokenizer = tokenizer_of(composed(fixture, entry));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (entry["ids"][i].is_null()) continue;
      const auto ids = entry["ids"][i].get<std::vector<TokenId>>();
      EXPECT_EQ(tokenizer.encode(texts[i]), ids) << texts[i];
      EXPECT_LE(tokenizer.min_tokens(texts[i]), static_cast<std::int64_t>(ids.size())) << texts[i];
      const bool is_other = entry["decoded"].contains(std::to_string(i));
      const bool is_added = entry["name"].get<std::string>().starts_with("added");
      if (!is_added || is_other) {
        const std::string want =
            is_other ? entry["decoded"][std::to_string(i)].get<std::string>() : texts[i];
        EXPECT_EQ(replace_invalid_utf8(tokenizer.decode(ids)), want);
      }
      ++num_checked;
    }
  }
  EXPECT_GT(num_checked, 4000U);
}

}  // namespace
}  // namespace graft::tokenizer
