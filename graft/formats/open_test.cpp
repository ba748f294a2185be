#include <gtest/gtest.h>

#include "graft/formats/gguf/gguf_config.h"
#include "graft/formats/gguf/gguf_tokenizer.h"
#include "graft/formats/gguf/gguf_writer.h"
#include "graft/formats/weight_source.h"
#include "graft/testing/formats.h"
#include "graft/testing/golden.h"

namespace graft::formats {
namespace {

TEST(OpenWeights, OpensHuggingFaceFolders) {
  const auto folder = sprout_checkpoint();
  const auto source = open_weights(folder);
  EXPECT_EQ(source->format(), "safetensors");
  EXPECT_EQ(source->files().size(), 3U);
  EXPECT_EQ(source->config().name, "sprout");
  EXPECT_EQ(source->config().num_nextn_predict_layers, 1);
  EXPECT_EQ(source->tokenizer().pre, "qwen2");
  EXPECT_TRUE(source->warnings().empty());
  const TensorInfo* embedding = source->find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape, (std::vector<std::int64_t>{8192, 512}));
  EXPECT_EQ(embedding->num_elems(), 8192 * 512);
  EXPECT_EQ(embedding->row_elems(), 512);
  EXPECT_EQ(embedding->num_rows(), 8192);
  EXPECT_EQ(source->find("lm_head.weight"), nullptr);
  source->release(*embedding);
}

TEST(OpenWeights, CountsTheLayersThatAreThere) {
  const auto folder = golden_checkpoint("deepseek-v3");
  const auto source = open_weights(folder);
  EXPECT_EQ(source->config().num_nextn_predict_layers, 0);
  EXPECT_EQ(source->warnings().size(), 1U);
  EXPECT_TRUE(source->tokenizer().empty());

  const auto file = open_weights(folder / "model.safetensors");
  EXPECT_EQ(file->config().architecture, Architecture::DeepseekV3);
  EXPECT_EQ(file->tensors().size(), source->tensors().size());

  const auto config = open_weights(folder / "config.json");
  EXPECT_EQ(config->format(), "config.json");
  EXPECT_TRUE(config->tensors().empty());
  EXPECT_EQ(config->config().num_nextn_predict_layers, 1);
  EXPECT_EQ(config->find("x"), nullptr);
}

TEST(OpenWeights, OpensGguf) {
  const auto folder = golden_checkpoint("qwen3");
  const auto original = open_weights(folder);
  const TemporaryFolder temp;
  const auto path = temp / "tiny.gguf";
  GgufMetadata metadata;
  write_gguf_config(original->config(), metadata);
  write_gguf_tokenizer({}, metadata);
  GgufWriter writer(path, metadata,
                    {{.name = "output.weight", .dtype = DType::F32, .shape = {1, 2}},
                     {.name = "blk.0.attn_q_norm.weight", .dtype = DType::F32, .shape = {2}}});
  writer.append(test::pattern(8, 1));
  writer.append(test::pattern(8, 2));
  writer.finish();

  const auto source = open_weights(path);
  EXPECT_EQ(source->format(), "GGUF v3");
  EXPECT_EQ(source->files().size(), 1U);
  EXPECT_EQ(source->tensors().size(), 2U);
  ASSERT_NE(source->find("output.weight"), nullptr);
  EXPECT_EQ(source->find("output.weight")->data.size(), 8U);
  ModelConfig want = original->config();
  want.torch_dtype.clear();
  EXPECT_EQ(source->config(), want);
}

TEST(OpenWeights, SaysWhatAPathIsNot) {
  const TemporaryFolder temp;
  const auto error = [](const std::filesystem::path& path) {
    return test::error_of([&] { open_weights(path); });
  };
  EXPECT_NE(error(temp / "nothing").find("nothing: no such file or folder"), std::string::npos);
  EXPECT_NE(error(temp.path()).find("without config.json"), std::string::npos);
  test::write_file(temp / "a.bin", std::string_view("\x7f"
                                                    "ELF\x02\x01"));
  EXPECT_NE(error(temp / "a.bin").find("its first bytes are 7f 45 4c 46 02 01"), std::string::npos);
  test::write_file(temp / "config.json", R"({"model_type": "gpt2"})");
  EXPECT_NE(error(temp / "config.json").find("supported are"), std::string::npos);
  EXPECT_NE(error(temp.path()).find("supported are"), std::string::npos);
  test::write_file(temp / "config.json", R"({"model_type": "llama"})");
  EXPECT_NE(error(temp.path()), "");
  EXPECT_EQ(open_weights(temp / "config.json")->config().hidden_size, 4096);
  test::write_file(temp / "b.gguf", "GGUF");
  EXPECT_NE(error(temp / "b.gguf"), "");
}

}  // namespace
}  // namespace graft::formats
