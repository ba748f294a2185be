#include <gtest/gtest.h>
#include <sys/stat.h>

#include "graft/formats/gguf/gguf_writer.h"
#include "graft/formats/huggingface/hf_config_files.h"
#include "graft/formats/weight_source.h"
#include "graft/testing/formats.h"
#include "graft/testing/golden.h"

namespace graft::formats {
namespace {

TEST(OpenWeights, OpensHuggingFaceFolders) {
  const auto folder = sprout_checkpoint();
  const auto source = open_weights(folder);
  EXPECT_EQ(source->format(), "safetensors");
  EXPECT_EQ(source->path(), folder);
  EXPECT_EQ(source->files().size(), 3U);
  ASSERT_NE(source->hf_config(), nullptr);
  EXPECT_TRUE(source->hf_config()->generation_config.has_value());
  EXPECT_EQ(source->gguf_metadata(), nullptr);
  std::vector<std::string> warnings;
  EXPECT_EQ(source->read_tokenizer({}, warnings).pre, "qwen2");
  EXPECT_TRUE(warnings.empty());
  const TensorInfo* embedding = source->find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape, (std::vector<std::int64_t>{8192, 512}));
  EXPECT_EQ(embedding->num_elems(), 8192 * 512);
  EXPECT_EQ(embedding->row_elems(), 512);
  EXPECT_EQ(embedding->num_rows(), 8192);
  EXPECT_EQ(source->find("lm_head.weight"), nullptr);
  source->release(*embedding);
}

TEST(OpenWeights, OpensASingleFileAndABareConfig) {
  const auto folder = golden_checkpoint("deepseek-v3");
  const auto file = open_weights(folder / "model.safetensors");
  EXPECT_NE(file->hf_config(), nullptr);
  EXPECT_EQ(file->tensors().size(), open_weights(folder)->tensors().size());

  const auto config = open_weights(folder / "config.json");
  EXPECT_EQ(config->format(), "config.json");
  EXPECT_TRUE(config->tensors().empty());
  EXPECT_EQ(config->find("x"), nullptr);
}

TEST(OpenWeights, OpensGguf) {
  const TempDir temp;
  const auto path = temp / "tiny.gguf";
  GgufMetadata metadata;
  metadata.set("general.architecture", std::string("anything"));
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
  ASSERT_NE(source->gguf_metadata(), nullptr);
  EXPECT_EQ(source->gguf_metadata()->string("general.architecture"), "anything");
  ASSERT_NE(source->find("output.weight"), nullptr);
  EXPECT_EQ(source->find("output.weight")->data.size(), 8U);
}

TEST(OpenWeights, RejectsPathsThatAreNotCheckpoints) {
  const TempDir temp;
  const auto error = [](const std::filesystem::path& path) {
    return test::error_of([&] { open_weights(path); });
  };
  EXPECT_NE(error(temp / "nothing").find("nothing: no such file or folder"), std::string::npos);
  EXPECT_NE(error(temp.path()).find("no config.json"), std::string::npos);
  test::write_file(temp / "a.bin", std::string_view("\x7f"
                                                    "ELF\x02\x01"));
  EXPECT_NE(error(temp / "a.bin").find("its first bytes are 7f 45 4c 46 02 01"), std::string::npos);
  test::write_file(temp / "config.json", R"({"model_type": "llama"})");
  EXPECT_NE(error(temp.path()), "");
  EXPECT_EQ(error(temp / "config.json"), "");
  test::write_file(temp / "c.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_NE(error(temp / "c.gguf").find("a Git LFS pointer"), std::string::npos);
  test::write_file(temp / "d.safetensors", "\n<!DOCTYPE HTML><p>404");
  EXPECT_NE(error(temp / "d.safetensors").find("an HTML page"), std::string::npos);
  test::write_file(temp / "pytorch_model.bin", "PK\x03\x04 more");
  EXPECT_NE(error(temp / "pytorch_model.bin").find("a ZIP or PyTorch file"), std::string::npos);
  EXPECT_NE(error(temp.path()).find("pytorch_model.bin"), std::string::npos) << error(temp.path());
  std::filesystem::create_directory(temp / "lfs");
  test::write_file(temp / "lfs/config.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_NE(error(temp / "lfs").find("config.json: a Git LFS pointer"), std::string::npos);
  test::write_file(temp / "lfs/config.json", R"({"model_type": "llama"})");
  test::write_file(temp / "lfs/model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_NE(error(temp / "lfs").find("model.safetensors: a Git LFS pointer"), std::string::npos);
  ASSERT_EQ(::mkfifo((temp / "pipe").c_str(), 0600), 0);
  EXPECT_NE(error(temp / "pipe").find("not a regular file"), std::string::npos);
  test::write_file(temp / "b.gguf", "GGUF");
  EXPECT_NE(error(temp / "b.gguf"), "");
}

TEST(HfConfigFiles, ReadsTokensOfTheTextModelAndTheGenerationConfig) {
  const HfConfigFiles files = {
      .path = "config.json",
      .config = parse_json(R"({"eos_token_id": 2, "pad_token_id": -1,
                               "text_config": {"vocab_size": 100, "bos_token_id": 1}})",
                           "test"),
      .generation_config = parse_json(R"({"eos_token_id": [2, 5]})", "test")};
  const ModelTokens tokens = read_model_tokens(files);
  EXPECT_EQ(tokens.vocab_size, 100);
  EXPECT_EQ(tokens.eos_token_ids, (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(tokens.bos_token_id, 1);
  EXPECT_EQ(tokens.pad_token_id, std::nullopt);
}

}  // namespace
}  // namespace graft::formats
