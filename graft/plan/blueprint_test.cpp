#include "graft/plan/blueprint.h"

#include <gtest/gtest.h>

#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

TEST(Blueprint, WeightBytesFollowTheType) {
  const WeightSpec weight{.name = "w", .shape = {512, 256}, .dtype = DType::Q4_K};
  EXPECT_EQ(weight.num_elems(), 512 * 256);
  EXPECT_EQ(weight.bytes(), 512U * 144U);
}

TEST(Blueprint, FindsModulesByName) {
  const Blueprint blueprint = testing::deepseek_v3();
  EXPECT_EQ(blueprint.find(""), &blueprint.root);
  ASSERT_NE(blueprint.find("model.layers.10.mlp.experts"), nullptr);
  EXPECT_EQ(blueprint.find("model.layers.10.mlp.experts")->layer, 10);
  EXPECT_EQ(blueprint.find("model.layers.10.mlp.experts")->last_name(), "experts");
  EXPECT_EQ(blueprint.find("lm_head")->last_name(), "lm_head");
  EXPECT_EQ(blueprint.find("model.layers.61"), nullptr);
  EXPECT_EQ(blueprint.find("model.norm.weight"), nullptr);
  EXPECT_EQ(blueprint.find("mod"), nullptr);
}

TEST(Blueprint, VisitsParentsFirst) {
  std::vector<std::string> names;
  testing::mixtral(1).visit([&](const ModuleSpec& module) { names.push_back(module.name); });
  ASSERT_GT(names.size(), 6U);
  EXPECT_EQ(names[0], "");
  EXPECT_EQ(names[1], "model");
  EXPECT_EQ(names[2], "model.embed_tokens");
  EXPECT_EQ(names[3], "model.layers.0");
  EXPECT_EQ(names[4], "model.layers.0.self_attn");
  EXPECT_EQ(names.back(), "lm_head");
}

TEST(Blueprint, ClassesAreInstancesOfTheirBases) {
  constexpr ClassBase kBases[] = {{"XYarnRotaryEmbedding", "XRotaryEmbedding"},
                                  {"XLongYarnRotaryEmbedding", "XYarnRotaryEmbedding"}};
  EXPECT_TRUE(is_instance("Linear", "torch.nn.Linear"));
  EXPECT_TRUE(is_instance("Linear", "Linear"));
  EXPECT_TRUE(is_instance("NonDynamicallyQuantizableLinear", "Linear", kBases));
  EXPECT_TRUE(
      is_instance("XYarnRotaryEmbedding", "ktransformers.models.x.XRotaryEmbedding", kBases));
  EXPECT_TRUE(is_instance("XLongYarnRotaryEmbedding", "XRotaryEmbedding", kBases));
  EXPECT_FALSE(is_instance("XYarnRotaryEmbedding", "XRotaryEmbedding"));
  EXPECT_FALSE(is_instance("XRotaryEmbedding", "XYarnRotaryEmbedding", kBases));
  EXPECT_TRUE(is_instance("Qwen2MoeRMSNorm", "torch.nn.Module"));
  EXPECT_FALSE(is_instance("Qwen2MoeRMSNorm", "Qwen3MoeRMSNorm"));
  EXPECT_TRUE(is_instance("DeepseekV3ForCausalLM", "DeepseekV3PreTrainedModel"));
  EXPECT_TRUE(is_instance("DeepseekV3Model", "transformers.PreTrainedModel"));
  EXPECT_FALSE(is_instance("DeepseekV3Model", "DeepseekV2PreTrainedModel"));
  EXPECT_FALSE(is_instance("Linear", "PreTrainedModel"));
}

}  // namespace
}  // namespace graft::plan
