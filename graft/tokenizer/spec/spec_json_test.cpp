#include "graft/tokenizer/spec/spec_json.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/formats/huggingface/hf_tokenizer.h"
#include "graft/testing/tokenizer.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {
namespace {

Json small() {
  return parse_json(R"({
    "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3}, "merges": ["a b"]}})",
                    "test");
}

std::string error_of(const Json& json) {
  return test::error_of([&] {
    std::vector<std::string> warnings;
    formats::TokenizerData data = formats::read_hf_tokenizer(json, {}, {}, "test", warnings);
    data.tokenizer_json = json.dump();
    const Tokenizer tokenizer(data);
  });
}

// The error after setting `path` of a valid file to `value`.
std::string error_with(const std::string& path, const std::string& value) {
  Json json = small();
  json[Json::json_pointer(path)] = parse_json(value, "test");
  return error_of(json);
}

TEST(SpecJson, AcceptsAValidFile) {
  EXPECT_EQ(error_of(small()), "");
}

TEST(SpecJson, NamesUnsupportedFeatures) {
  EXPECT_EQ(error_with("/normalizer", R"({"type": "Precompiled"})"),
            R"(tokenizer.json: normalizer: "precompiled_charsmap" must be a string)");
  EXPECT_EQ(error_with("/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "?"})"),
            R"(tokenizer.json: normalizer: precompiled_charsmap is not base64)");
  EXPECT_EQ(error_with("/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": ""})"),
            "");
  EXPECT_EQ(error_with("/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "Nmt"}]})"),
            R"(tokenizer.json: normalizer: "Nmt" is not supported)");
  EXPECT_EQ(error_with("/pre_tokenizer", R"({"type": "UnicodeScripts"})"),
            R"(tokenizer.json: pre_tokenizer: "UnicodeScripts" is not supported)");
  EXPECT_EQ(error_with("/pre_tokenizer",
                       R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Odd"})"),
            R"(tokenizer.json: pre_tokenizer: behavior "Odd" is not supported)");
  EXPECT_EQ(
      error_with(
          "/pre_tokenizer",
          R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})"),
      "tokenizer.json: pre_tokenizer: Digits after ByteLevel is not supported");
  EXPECT_EQ(error_with("/decoder", R"({"type": "WordPiece"})"),
            R"(tokenizer.json: decoder: "WordPiece" is not supported)");
  EXPECT_EQ(error_with("/post_processor", R"({"type": "BertProcessing"})"),
            R"(tokenizer.json: post_processor: "BertProcessing" is not supported)");
  EXPECT_EQ(error_with("/model/dropout", "0.1"),
            R"(tokenizer.json: model: "dropout" is not supported)");
  EXPECT_EQ(error_with("/model/end_of_word_suffix", R"("</w>")"),
            R"(tokenizer.json: model: "end_of_word_suffix" is not supported)");
}

TEST(SpecJson, NamesTheInvalidEntry) {
  EXPECT_EQ(error_with("/model/merges", R"(["a b", "a c"])"),
            R"(merge 1 "a c": the vocabulary has no token "c")");
  EXPECT_EQ(error_with("/model/merges", R"(["a b", "b a"])"),
            R"(merge 1 "b a": the vocabulary has no token "ba")");
  EXPECT_EQ(error_with("/model/merges", R"([["a", "b"], "a b b"])"),
            R"(tokenizer.json: model: merge 1 "a b b" is not a pair)");
  EXPECT_EQ(error_with("/model/unk_token", R"("<unk>")"),
            R"(tokenizer.json: model: unk_token "<unk>" is not in the vocabulary)");
  EXPECT_NE(error_with("/model/vocab/b", "0").find("has duplicate id 0"), std::string::npos);
  // Hugging Face would silently use another id than the file specifies.
  EXPECT_NE(error_with("/added_tokens/0/id", "1"), "");
  EXPECT_NE(error_with("/added_tokens/0/content", R"("a")"), "");
  EXPECT_EQ(
      error_with("/post_processor",
                 R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}]})"),
      R"(tokenizer.json: post_processor: no special token "x")");
  EXPECT_NE(error_with("/pre_tokenizer",
                       R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Removed"})"),
            "");
}

}  // namespace
}  // namespace graft::tokenizer
