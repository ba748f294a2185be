#include "graft/models/build/closest_family.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/formats/gguf/metadata.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/testing/formats.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

using formats::TensorInfo;
using formats::test::error_of;

Json golden_json(const char* name) {
  return read_json_file(golden_checkpoint(name) / "config.json");
}

TEST(ClosestFamily, IsTheOwnOneUnderAnotherName) {
  for (const char* name : {"llama", "qwen2-moe", "qwen3-moe", "mixtral", "deepseek-v2",
                           "deepseek-v3", "glm4-moe", "phi3", "gpt-oss"}) {
    Json config = golden_json(name);
    const auto type = config["model_type"].get<std::string>();
    config["model_type"] = "unheard_of";
    const auto weights = formats::open_weights(golden_checkpoint(name));
    const std::string text = closest_to_hf(config, weights->tensors());
    EXPECT_TRUE(text.starts_with("closest is " + type)) << name << ": " << text;
  }
}

TEST(ClosestFamily, NamesKeysAndTensors) {
  Json config = golden_json("qwen3-moe");
  config["model_type"] = "qwen9_moe";
  config["architectures"] = {"Qwen9MoeForCausalLM"};
  config["linear_conv_kernel_dim"] = 4;
  config.erase("moe_intermediate_size");
  const std::string error = error_of([&] {
    const std::vector<TensorInfo> tensors = {
        {.name = "model.layers.0.self_attn.q_proj.weight", .shape = {1}, .data = {}},
        {.name = "model.layers.0.linear_attn.conv1d.weight", .shape = {1}, .data = {}},
        {.name = "model.layers.1.linear_attn.conv1d.weight", .shape = {1}, .data = {}}};
    read_hf_config(config, nullptr, "config.json", tensors);
  });
  EXPECT_NE(error.find("config.json: \"model_type\" is \"qwen9_moe\", supported are: llama"),
            std::string::npos)
      << error;
  EXPECT_NE(
      error.find("; closest is qwen3_moe; differs: has keys linear_conv_kernel_dim; lacks keys "
                 "moe_intermediate_size; has tensors linear_attn.conv1d.weight"),
      std::string::npos)
      << error;
}

TEST(ClosestFamily, ListsFewNames) {
  Json config = golden_json("llama");
  config["model_type"] = "other";
  for (int i = 0; i < 20; ++i)
    config["key_" + std::to_string(i)] = i;
  const std::string text = closest_to_hf(config, {});
  EXPECT_NE(text.find(" and 12 more"), std::string::npos) << text;
}

TEST(ClosestFamily, IsFoundForGguf) {
  formats::GgufMetadata metadata;
  write_gguf_config(read_hf_config(golden_json("qwen3-moe"), nullptr, "test"), metadata);
  formats::GgufMetadata renamed;
  for (const auto& [key, value] : metadata.entries()) {
    const std::string prefix = "qwen3moe.";
    renamed.set(key.starts_with(prefix) ? "qwen9moe." + key.substr(prefix.size()) : key, value);
  }
  renamed.set("general.architecture", std::string("qwen9moe"));
  renamed.set("qwen9moe.ssm.conv_kernel", std::uint32_t{4});
  const std::vector<TensorInfo> tensors = {
      {.name = "blk.0.attn_q.weight", .shape = {1}, .data = {}},
      {.name = "blk.3.ssm_conv1d.weight", .shape = {1}, .data = {}}};
  const std::string error = error_of([&] { read_gguf_config(renamed, tensors, "x.gguf"); });
  EXPECT_NE(error.find("x.gguf: \"general.architecture\" is \"qwen9moe\", supported are: llama"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("closest is qwen3moe; differs: has keys ssm.conv_kernel"), std::string::npos)
      << error;
  EXPECT_NE(error.find("has tensors ssm_conv1d.weight"), std::string::npos) << error;
}

}  // namespace
}  // namespace graft::models
