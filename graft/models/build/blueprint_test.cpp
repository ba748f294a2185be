// The module trees of the families: names and classes that rules match, parameter counts.

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"

namespace graft::models {
namespace {

using ops::Role;
using plan::Blueprint;
using plan::ModuleSpec;

Blueprint blueprint_of(const std::filesystem::path& path) {
  return make_blueprint(*open_checkpoint(path));
}

const ModuleSpec& at(const Blueprint& blueprint, const std::string& name) {
  const ModuleSpec* module = blueprint.find(name);
  if (module == nullptr) throw std::out_of_range(name);
  return *module;
}

void expect_module(const Blueprint& blueprint,
                   const std::string& name,
                   const std::string& class_name,
                   Role role) {
  const ModuleSpec& module = at(blueprint, name);
  EXPECT_EQ(module.class_name, class_name) << name;
  EXPECT_EQ(module.role, role) << name;
}

struct PublishedSize {
  const char* folder;
  double parameters;  // in billions, from the README of the configs
  double used;
};

class PublishedConfig : public ::testing::TestWithParam<PublishedSize> {};

double in_billions(std::int64_t count) {
  return std::round(static_cast<double>(count) / 1e8) / 10.0;
}

TEST_P(PublishedConfig, HasTheKnownNumberOfParameters) {
  const auto path = test_data("configs") / GetParam().folder;
  const Blueprint blueprint = blueprint_of(path / "config.json");
  EXPECT_DOUBLE_EQ(in_billions(num_parameters(blueprint)), GetParam().parameters);
  EXPECT_DOUBLE_EQ(in_billions(num_parameters_per_token(blueprint)), GetParam().used);
}

INSTANTIATE_TEST_SUITE_P(Blueprint,
                         PublishedConfig,
                         ::testing::Values(PublishedSize{"DeepSeek-V2-Lite", 15.7, 2.7},
                                           PublishedSize{"DeepSeek-V2", 235.7, 21.4},
                                           PublishedSize{"DeepSeek-V3", 671.0, 37.6},
                                           PublishedSize{"Kimi-K2", 1026.4, 32.9},
                                           PublishedSize{"Qwen2-57B-A14B", 57.4, 14.2},
                                           PublishedSize{"Qwen3-30B-A3B", 30.5, 3.4},
                                           PublishedSize{"Qwen3-235B-A22B", 235.1, 22.2},
                                           PublishedSize{"Mixtral-8x7B", 46.7, 12.9},
                                           PublishedSize{"GLM-4.5-Air", 106.9, 13.4},
                                           PublishedSize{"Llama-3.1-8B", 8.0, 8.0}),
                         [](const auto& test) {
                           std::string name = test.param.folder;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

TEST(Blueprint, DeepseekV3HasTheNamesAndClassesThatRulesMatch) {
  const auto path = test_data("configs/DeepSeek-V3/config.json");
  const Blueprint blueprint = blueprint_of(path);
  const std::map<std::string, std::pair<std::string, Role>> want = {
      {"", {"DeepseekV3ForCausalLM", Role::Model}},
      {"model", {"DeepseekV3Model", Role::Model}},
      {"model.embed_tokens", {"Embedding", Role::Embedding}},
      {"model.layers.3", {"DeepseekV3DecoderLayer", Role::Layer}},
      {"model.layers.3.input_layernorm", {"DeepseekV3RMSNorm", Role::Norm}},
      {"model.layers.3.self_attn", {"DeepseekV3Attention", Role::Attention}},
      {"model.layers.3.self_attn.q_a_proj", {"Linear", Role::Linear}},
      {"model.layers.3.self_attn.q_a_layernorm", {"DeepseekV3RMSNorm", Role::Norm}},
      {"model.layers.3.self_attn.q_b_proj", {"Linear", Role::Linear}},
      {"model.layers.3.self_attn.kv_a_proj_with_mqa", {"Linear", Role::Linear}},
      {"model.layers.3.self_attn.kv_a_layernorm", {"DeepseekV3RMSNorm", Role::Norm}},
      {"model.layers.3.self_attn.kv_b_proj", {"Linear", Role::Linear}},
      {"model.layers.3.self_attn.o_proj", {"Linear", Role::Linear}},
      {"model.layers.3.self_attn.rotary_emb", {"DeepseekV3YarnRotaryEmbedding", Role::Rope}},
      {"model.layers.3.self_attn.kv_cache", {"KvCache", Role::KvCache}},
      {"model.layers.2.mlp", {"DeepseekV3MLP", Role::Mlp}},
      {"model.layers.2.mlp.gate_proj", {"Linear", Role::Linear}},
      {"model.layers.3.mlp", {"DeepseekV3MoE", Role::Moe}},
      {"model.layers.3.mlp.gate", {"MoEGate", Role::Router}},
      {"model.layers.3.mlp.experts", {"ModuleList", Role::Experts}},
      {"model.layers.3.mlp.shared_experts", {"DeepseekV3MLP", Role::Mlp}},
      {"model.layers.3.mlp.shared_experts.down_proj", {"Linear", Role::Linear}},
      {"model.norm", {"DeepseekV3RMSNorm", Role::Norm}},
      {"lm_head", {"Linear", Role::Linear}},
  };
  for (const auto& [name, expected] : want) {
    expect_module(blueprint, name, expected.first, expected.second);
  }
  EXPECT_EQ(at(blueprint, "model.layers.3.mlp.gate").layer, 3);
  EXPECT_EQ(at(blueprint, "model.norm").layer, -1);
  EXPECT_EQ(blueprint.find("model.layers.61"), nullptr);  // the next-n layer
  EXPECT_DOUBLE_EQ(blueprint.expert_share, 8.0 / 256.0);
}

TEST(Blueprint, PublishedFp8WeightsHaveScales) {
  const auto path = test_data("configs/DeepSeek-V3/config.json");
  const Blueprint blueprint = blueprint_of(path);
  const ModuleSpec& q_a = at(blueprint, "model.layers.0.self_attn.q_a_proj");
  ASSERT_EQ(q_a.weights.size(), 2U);
  EXPECT_EQ(q_a.weights[0].dtype, DType::F8_E4M3);
  EXPECT_EQ(q_a.weights[1].name, "model.layers.0.self_attn.q_a_proj.weight_scale_inv");
  EXPECT_EQ(q_a.weights[1].shape, (std::vector<std::int64_t>{12, 56}));
}

TEST(Blueprint, PublishedFp8CheckpointsKeepHeadAndRouterPlain) {
  const auto path = test_data("configs/DeepSeek-V3/config.json");
  const Blueprint blueprint = blueprint_of(path);
  EXPECT_EQ(at(blueprint, "lm_head").weights[0].dtype, DType::BF16);
  const ModuleSpec& gate = at(blueprint, "model.layers.3.mlp.gate");
  EXPECT_EQ(gate.weights[0].dtype, DType::BF16);
  EXPECT_EQ(gate.weights[1].dtype, DType::F32);
  EXPECT_EQ(at(blueprint, "model.layers.3.mlp.experts").weights.size(), 256U * 3U * 2U);
}

TEST(Blueprint, MixtralKeepsItsOwnNames) {
  const auto path = test_data("configs/Mixtral-8x7B/config.json");
  const Blueprint blueprint = blueprint_of(path);
  expect_module(blueprint, "model.layers.0.block_sparse_moe", "MixtralSparseMoeBlock", Role::Moe);
  const ModuleSpec& experts = at(blueprint, "model.layers.0.block_sparse_moe.experts");
  EXPECT_EQ(experts.weights[0].name, "model.layers.0.block_sparse_moe.experts.0.w1.weight");
  EXPECT_EQ(experts.weights[2].name, "model.layers.0.block_sparse_moe.experts.0.w2.weight");
  EXPECT_EQ(experts.weights[2].shape, (std::vector<std::int64_t>{4096, 14336}));
  expect_module(blueprint, "model.layers.0.self_attn.rotary_emb", "MixtralRotaryEmbedding",
                Role::Rope);
}

void expect_stored(const formats::WeightSource& source, const plan::WeightSpec& weight) {
  const formats::TensorInfo* tensor = source.find(weight.name);
  ASSERT_NE(tensor, nullptr) << weight.name;
  EXPECT_EQ(tensor->shape, weight.shape) << weight.name;
  EXPECT_EQ(tensor->dtype, weight.dtype) << weight.name;
}

// The weights of the blueprint are exactly the tensors of the file, with the same shapes.
class GoldenBlueprint : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenBlueprint, NamesExactlyTheWeightsOfTheCheckpoint) {
  const auto path = golden_checkpoint(GetParam());
  const auto source = open_checkpoint(path);
  const Blueprint blueprint = make_blueprint(*source);
  std::set<std::string> named;
  blueprint.visit([&](const ModuleSpec& module) {
    for (const plan::WeightSpec& weight : module.weights) {
      expect_stored(*source, weight);
      named.insert(weight.name);
    }
  });
  EXPECT_EQ(named.size(), source->tensors().size());
}

INSTANTIATE_TEST_SUITE_P(Blueprint,
                         GoldenBlueprint,
                         ::testing::Values("llama",
                                           "llama3-rope",
                                           "qwen2",
                                           "qwen3",
                                           "qwen2-moe",
                                           "qwen3-moe",
                                           "mixtral",
                                           "deepseek-v2-lite",
                                           "deepseek-v2",
                                           "deepseek-v2-yarn",
                                           "deepseek-v3",
                                           "deepseek-v3-yarn",
                                           "glm4-moe"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Blueprint, LlavaIsALlamaTextModelWithAVisionTower) {
  const auto path = golden_checkpoint("llava");
  const Blueprint blueprint = blueprint_of(path);
  EXPECT_EQ(blueprint.root.class_name, "LlavaForConditionalGeneration");
  EXPECT_EQ(at(blueprint, "model.layers.0.self_attn").class_name, "LlamaAttention");
  const ModuleSpec& tower = at(blueprint, "vision_tower");
  EXPECT_EQ(tower.role, ops::Role::VisionTower);
  EXPECT_EQ(tower.weights.size(), 5U + 2 * 16U) << "the last of three layers is not used";
  EXPECT_EQ(at(blueprint, "multi_modal_projector").weights.size(), 4U);
  const Blueprint next = blueprint_of(golden_checkpoint("llava-next"));
  EXPECT_EQ(at(next, "multi_modal_projector").weights.back().name, "image_newline");
}

TEST(Blueprint, RejectsUnsupportedActivations) {
  ModelConfig config;
  EXPECT_THROW(make_blueprint(config), Error);  // no family
  config.family = find_family("llama");
  config.hidden_act = "gelu";
  EXPECT_THROW(make_blueprint(config), Error);
}

}  // namespace
}  // namespace graft::models
