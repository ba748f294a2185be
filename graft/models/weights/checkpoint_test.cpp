#include "graft/models/weights/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/formats/gguf/gguf_tokenizer.h"
#include "graft/formats/gguf/gguf_writer.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/families/family.h"
#include "graft/testing/formats.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"

namespace graft::models {
namespace {

namespace test = formats::test;

TEST(Checkpoint, ReadsConfigAndTokenizerOfAFolder) {
  const auto folder = shared_data("models/sprout");
  GRAFT_REQUIRE_SHARED(folder);
  const auto checkpoint = open_checkpoint(folder);
  EXPECT_EQ(checkpoint->config().name, "sprout");
  EXPECT_EQ(checkpoint->config().num_nextn_predict_layers, 1);
  EXPECT_EQ(checkpoint->tokenizer().pre, "qwen2");
  EXPECT_EQ(checkpoint->tokenizer().tokens.size(), 8192U);
  EXPECT_TRUE(checkpoint->warnings().empty());
}

TEST(Checkpoint, UsesATokenizerFromElsewhere) {
  namespace fs = std::filesystem;
  const TempDir folder;
  const fs::path sprout = sprout_checkpoint();
  fs::copy_file(sprout / "tokenizer.json", folder / "tokenizer.json");
  Json config = read_json_file(sprout / "tokenizer_config.json");
  config["chat_template"] = "mine";
  std::ofstream(folder / "tokenizer_config.json") << config;
  std::ofstream(folder / "generation_config.json")
      << R"({"temperature": 0.25, "eos_token_id": [3, 5]})";
  const auto checkpoint = open_checkpoint(bundled_sprout());
  const auto tokens = checkpoint->tokenizer().tokens;
  EXPECT_NE(checkpoint->tokenizer().chat_template, "mine");
  checkpoint->use_tokenizer(folder.path());
  EXPECT_EQ(checkpoint->tokenizer().chat_template, "mine");
  EXPECT_EQ(checkpoint->tokenizer().tokens, tokens);
  EXPECT_FALSE(checkpoint->tokenizer().tokenizer_json.empty());
  EXPECT_EQ(checkpoint->config().temperature, 0.25);
  EXPECT_EQ(checkpoint->config().eos_token_ids, (std::vector<std::int64_t>{3, 5}));

  Json larger = read_json_file(folder / "tokenizer.json");
  larger["added_tokens"].push_back({{"id", 9000},
                                    {"content", "<more>"},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  std::ofstream(folder / "tokenizer.json") << larger;
  EXPECT_THROW(checkpoint->use_tokenizer(folder.path()), Error);
  EXPECT_THROW(checkpoint->use_tokenizer(folder / "absent"), Error);
}

TEST(Checkpoint, CountsTheNextTokenPredictionLayersThatExist) {
  const auto folder = shared_data("golden/deepseek-v3");
  GRAFT_REQUIRE_SHARED(folder);
  const auto checkpoint = open_checkpoint(folder);
  EXPECT_EQ(checkpoint->config().num_nextn_predict_layers, 0);
  EXPECT_EQ(checkpoint->warnings().size(), 1U);
  EXPECT_TRUE(checkpoint->tokenizer().empty());

  const auto file = open_checkpoint(folder / "model.safetensors");
  EXPECT_EQ(file->config().family, find_family("deepseek_v3"));
  EXPECT_EQ(open_checkpoint(folder / "config.json")->config().num_nextn_predict_layers, 1);
}

TEST(Checkpoint, RoundTripsThroughGguf) {
  const auto folder = shared_data("golden/qwen3");
  GRAFT_REQUIRE_SHARED(folder);
  const auto original = open_checkpoint(folder);
  const TempDir temp;
  const auto path = temp / "tiny.gguf";
  formats::GgufMetadata metadata;
  write_gguf_config(original->config(), metadata);
  formats::write_gguf_tokenizer({}, metadata);
  formats::GgufWriter writer(
      path, metadata,
      {{.name = "output.weight", .dtype = DType::F32, .shape = {1, 2}},
       {.name = "blk.0.attn_q_norm.weight", .dtype = DType::F32, .shape = {2}}});
  writer.append(test::pattern(8, 1));
  writer.append(test::pattern(8, 2));
  writer.finish();

  ModelConfig want = original->config();
  want.torch_dtype.clear();
  EXPECT_EQ(open_checkpoint(path)->config(), want);
}

TEST(Checkpoint, NamesTheSupportedFamilies) {
  const TempDir temp;
  const auto path = temp / "config.json";
  test::write_file(path, R"({"model_type": "gpt2"})");
  const std::string error = test::error_of([&] { open_checkpoint(path); });
  EXPECT_NE(error.find("supported are: llama, mistral"), std::string::npos) << error;
  EXPECT_NE(error.find("kimi_k2"), std::string::npos) << error;
  test::write_file(path, R"({"model_type": "llama"})");
  EXPECT_EQ(open_checkpoint(path)->config().hidden_size, 4096);
}

TEST(Checkpoint, SafetensorsFileNeedsAConfig) {
  const auto folder = shared_data("golden/qwen3");
  GRAFT_REQUIRE_SHARED(folder);
  const TempDir temp;
  std::filesystem::copy_file(folder / "model.safetensors", temp / "a.safetensors");
  const auto error = [&] {
    return test::error_of([&] { open_checkpoint(temp / "a.safetensors"); });
  };
  EXPECT_NE(error().find("a.safetensors: config.json is missing beside it"), std::string::npos);
  test::write_file(temp / "adapter_config.json", "{}");
  EXPECT_NE(error().find("a.safetensors: a LoRA adapter"), std::string::npos);
}

}  // namespace
}  // namespace graft::models
