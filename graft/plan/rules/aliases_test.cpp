#include "graft/plan/rules/aliases.h"

#include <vector>

#include <gtest/gtest.h>

namespace graft::plan {
namespace {

TEST(Aliases, FindsClassesByTheirLastComponent) {
  for (const char* name : {"ktransformers.operators.linear.KTransformersLinear",
                           "operators.linear.KTransformersLinear", "KTransformersLinear"}) {
    ASSERT_NE(find_class_alias(name), nullptr) << name;
    EXPECT_EQ(find_class_alias(name)->role, ops::Role::Linear);
  }
  const std::vector<ClassAlias> more = {{"kDeepseekV3MLP", ops::Role::Mlp}};
  const char* mlp = "ktransformers.operators.mlp.kDeepseekV3MLP";
  EXPECT_EQ(find_class_alias(mlp), nullptr);
  EXPECT_EQ(find_class_alias(mlp, more)->role, ops::Role::Mlp);
  EXPECT_EQ(find_class_alias("x.KQwen3NextGatedDeltaNet")->role, ops::Role::Attention);
  EXPECT_EQ(find_class_alias("x.KMoEGateIPEXLLM")->platform, Platform::Xpu);
  EXPECT_EQ(find_class_alias("default"), nullptr);
  EXPECT_EQ(find_class_alias("Linear"), nullptr);
  EXPECT_EQ(find_class_alias(""), nullptr);
}

TEST(Aliases, OpsHaveARoleAndMayHaveADevice) {
  EXPECT_EQ(find_op_alias("KLinearMarlin")->device, DeviceType::Cuda);
  EXPECT_EQ(find_op_alias("KLinearTorch")->device, std::nullopt);
  EXPECT_EQ(find_op_alias("KExpertsCPU")->device, DeviceType::Cpu);
  EXPECT_EQ(find_op_alias("KExpertsCPU")->role, ops::Role::Experts);
  EXPECT_EQ(find_op_alias("KLinearIPEXLLM")->platform, Platform::Xpu);
  EXPECT_EQ(find_op_alias("None"), nullptr);
  EXPECT_EQ(op_alias_list(ops::Role::Experts),
            "KExpertsCPU, KExpertsCPUW8A8, KExpertsMarlin, KExpertsTorch");
}

TEST(Aliases, ForeignDevices) {
  EXPECT_TRUE(is_foreign_device("npu"));
  EXPECT_TRUE(is_foreign_device("xpu:0"));
  EXPECT_FALSE(is_foreign_device("cuda:0"));
  EXPECT_FALSE(is_foreign_device("npux"));
  EXPECT_TRUE(is_backend("AMXInt8"));
  EXPECT_FALSE(is_backend("amxint8"));
}

}  // namespace
}  // namespace graft::plan
