#include "graft/formats/adapters/adapter_file.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/formats/gguf/gguf_writer.h"
#include "graft/testing/golden.h"

namespace graft::formats {
namespace {

Json peft_config(const Json& more = Json::object()) {
  Json json = {{"peft_type", "LORA"}, {"r", 8}, {"lora_alpha", 16}, {"bias", "none"}};
  json.update(more);
  return json;
}

std::string adapter_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TensorInfo matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return {.name = name, .dtype = DType::F32, .shape = {rows, cols}, .data = {}};
}

constexpr const char* kQ = "base_model.model.model.layers.0.self_attn.q_proj";

std::vector<TensorInfo> q_pair(std::int64_t rank) {
  return {matrix(std::string(kQ) + ".lora_A.weight", rank, 4),
          matrix(std::string(kQ) + ".lora_B.weight", 6, rank)};
}

TEST(PeftConfig, ScalesByAlphaOverRank) {
  EXPECT_DOUBLE_EQ(PeftConfig(peft_config(), "c").scale_of("model.layers.0.self_attn.q_proj"), 2.0);
  const PeftConfig stable(peft_config({{"use_rslora", true}}), "c");
  EXPECT_DOUBLE_EQ(stable.scale_of("model.layers.0.self_attn.q_proj"), 16.0 / std::sqrt(8.0));
}

TEST(PeftConfig, PatternsMatchTheEndOfAModule) {
  const PeftConfig peft(
      peft_config({{"rank_pattern", {{"v_proj", 4}, {"layers\\.1\\..*up_proj", 2}}},
                   {"alpha_pattern", {{"self_attn.q_proj", 32}}}}),
      "c");
  EXPECT_EQ(peft.rank_of("model.layers.0.self_attn.v_proj"), 4);
  EXPECT_EQ(peft.rank_of("model.layers.0.self_attn.other_v_proj"), 8);
  EXPECT_EQ(peft.rank_of("model.layers.1.mlp.up_proj"), 2);
  EXPECT_EQ(peft.rank_of("model.layers.2.mlp.up_proj"), 8);
  EXPECT_DOUBLE_EQ(peft.scale_of("model.layers.7.self_attn.q_proj"), 4.0);
  EXPECT_DOUBLE_EQ(peft.scale_of("model.layers.0.self_attn.v_proj"), 4.0);
}

TEST(PeftConfig, NamesTheFieldOfAnUnsupportedFeature) {
  const std::vector<std::pair<std::string, Json>> fields = {
      {"use_dora", true},
      {"bias", "all"},
      {"lora_bias", true},
      {"fan_in_fan_out", true},
      {"modules_to_save", {"lm_head"}},
      {"target_parameters", {"mlp.experts.gate_up_proj"}},
      {"trainable_token_indices", {1, 2}},
      {"layer_replication", {{0, 4}}},
      {"alora_invocation_tokens", {5}},
      {"use_qalora", true}};
  for (const auto& [field, value] : fields) {
    const std::string error = adapter_error([&] {
      PeftConfig(peft_config({{field, value}}), "adapter_config.json");
    });
    EXPECT_NE(error.find('"' + field + '"'), std::string::npos) << field << ": " << error;
    EXPECT_NE(error.find("not supported"), std::string::npos) << error;
  }
  EXPECT_EQ(adapter_error([] {
              PeftConfig(peft_config({{"modules_to_save", Json::array()}}), "c");
            }),
            "");
}

TEST(PeftConfig, RefusesOtherMethodsAndWrongValues) {
  EXPECT_NE(adapter_error([] {
              PeftConfig(peft_config({{"peft_type", "IA3"}}), "c");
            }).find("IA3"),
            std::string::npos);
  EXPECT_NE(adapter_error([] {
              PeftConfig(peft_config({{"r", 0}}), "c");
            }).find("\"r\" is 0"),
            std::string::npos);
  EXPECT_NE(adapter_error([] {
              PeftConfig(peft_config({{"r", "8"}}), "c");
            }).find("\"r\" is"),
            std::string::npos);
  EXPECT_NE(adapter_error([] {
              PeftConfig(peft_config({{"lora_alpha", 1e300}}), "c");
            }).find("lora_alpha"),
            std::string::npos);
  EXPECT_NE(adapter_error([] {
              PeftConfig(peft_config({{"rank_pattern", 3}}), "c");
            }).find("rank_pattern"),
            std::string::npos);
  EXPECT_NE(adapter_error([] { PeftConfig(Json::array(), "c"); }).find("object"),
            std::string::npos);
  const PeftConfig broken(peft_config({{"rank_pattern", {{"(", 3}}}}), "c");
  EXPECT_NE(adapter_error([&] { broken.rank_of("q_proj"); }).find("pattern \"(\""),
            std::string::npos);
}

TEST(PeftPairs, AreFoundByModule) {
  const auto tensors = q_pair(8);
  const auto pairs = peft_pairs(PeftConfig(peft_config(), "c"), tensors, "f");
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].target, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(pairs[0].rank(), 8);
  EXPECT_DOUBLE_EQ(pairs[0].scale, 2.0);
}

TEST(PeftPairs, NameTheTensorThatIsWrong) {
  const PeftConfig peft(peft_config(), "c");
  const auto error = [&](std::vector<TensorInfo> tensors) {
    return adapter_error([&] { peft_pairs(peft, tensors, "f"); });
  };
  EXPECT_NE(error(q_pair(4)).find("says rank 8"), std::string::npos);
  EXPECT_NE(error({q_pair(8)[0]}).find("lora_A.weight has no B matrix"), std::string::npos);
  EXPECT_NE(error({}).find("no LoRA tensors"), std::string::npos);
  auto odd = q_pair(8);
  odd[1].shape = {6, 7};
  EXPECT_NE(error(odd).find("different ranks"), std::string::npos);
  odd[1].shape = {48};
  EXPECT_NE(error(odd).find("expected a matrix"), std::string::npos);
  odd = q_pair(8);
  odd[0].dtype = DType::I32;
  EXPECT_NE(error(odd).find("type I32"), std::string::npos);
  odd = q_pair(8);
  odd.push_back(matrix("base_model.model.lm_head.weight", 6, 4));
  EXPECT_NE(error(odd).find("lm_head.weight"), std::string::npos);
  odd.back().name = "base_model.model.model.embed_tokens.lora_embedding_A";
  EXPECT_NE(error(odd).find("embeddings"), std::string::npos);
  odd.back().name = std::string(kQ) + ".lora_magnitude_vector";
  EXPECT_NE(error(odd).find("DoRA"), std::string::npos);
}

GgufMetadata adapter_metadata() {
  GgufMetadata metadata;
  metadata.set("general.architecture", std::string("llama"));
  metadata.set("general.type", std::string("adapter"));
  metadata.set("adapter.type", std::string("lora"));
  metadata.set("adapter.lora.alpha", 16.0F);
  return metadata;
}

TEST(GgufPairs, AreFoundBySuffix) {
  const std::vector<TensorInfo> tensors = {matrix("blk.0.attn_q.weight.lora_a", 8, 4),
                                           matrix("blk.0.attn_q.weight.lora_b", 6, 8)};
  GgufMetadata metadata = adapter_metadata();
  const auto pairs = gguf_pairs(metadata, tensors, "f");
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].target, "blk.0.attn_q.weight");
  EXPECT_DOUBLE_EQ(pairs[0].scale, 2.0);
  metadata.set("adapter.lora.alpha", 0.0F);
  EXPECT_DOUBLE_EQ(gguf_pairs(metadata, tensors, "f")[0].scale, 1.0);
}

TEST(GgufPairs, RefuseOtherFiles) {
  const std::vector<TensorInfo> tensors = {matrix("token_embd.weight.lora_a", 8, 4)};
  const auto error = [&](const char* key, GgufValue value) {
    GgufMetadata metadata = adapter_metadata();
    metadata.set(key, std::move(value));
    return adapter_error([&] { gguf_pairs(metadata, tensors, "f"); });
  };
  EXPECT_NE(error("general.type", std::string("model")).find("\"model\""), std::string::npos);
  EXPECT_NE(error("adapter.type", std::string("control")).find("\"control\""), std::string::npos);
  EXPECT_NE(error("adapter.alora.invocation_tokens", std::uint32_t{1}).find("aLoRA"),
            std::string::npos);
  EXPECT_NE(error("adapter.lora.alpha", std::nanf("")).find("alpha"), std::string::npos);
  EXPECT_NE(error("x", std::uint32_t{1}).find("embeddings"), std::string::npos);
}

TEST(AdapterFile, OpensAFolderAndItsFiles) {
  const auto folder = golden_adapter("llama-lora-a");
  const auto adapter = open_adapter(folder);
  EXPECT_FALSE(adapter->is_gguf());
  EXPECT_EQ(adapter->base_model(), "../../golden/llama");
  EXPECT_EQ(adapter->pairs().size(), open_adapter(folder / "adapter_config.json")->pairs().size());
}

TEST(AdapterFile, SaysWhatIsMissing) {
  const TempDir folder;
  EXPECT_NE(adapter_error([&] { open_adapter(folder / "none"); }).find("no such file"),
            std::string::npos);
  EXPECT_NE(adapter_error([&] { open_adapter(folder.path()); }).find("adapter_model.safetensors"),
            std::string::npos);
  std::ofstream(folder / "adapter_model.bin") << "x";
  EXPECT_NE(adapter_error([&] { open_adapter(folder.path()); }).find("pickle"), std::string::npos);
  std::filesystem::copy_file(golden_adapter("llama-lora-a") / "adapter_model.safetensors",
                             folder / "adapter_model.safetensors");
  EXPECT_NE(adapter_error([&] { open_adapter(folder.path()); }).find("adapter_config.json"),
            std::string::npos);
  std::ofstream(folder / "x.gguf") << "GGUF";
  EXPECT_NE(adapter_error([&] { open_adapter(folder / "x.gguf"); }), "");
}

}  // namespace
}  // namespace graft::formats
