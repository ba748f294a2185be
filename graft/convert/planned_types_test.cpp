#include "graft/convert/planned_types.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/convert/job.h"
#include "graft/formats/synthetic.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/build/shapes.h"

namespace graft::convert {
namespace {

plan::Blueprint planned(const models::ModelConfig& config, const char* type) {
  plan::Blueprint blueprint = models::make_blueprint(config);
  set_types(blueprint, config, mix_or_type(type));
  return blueprint;
}

// A small model of the family with two layers.
models::ModelConfig small(const char* shape) {
  models::ModelConfig config = models::shape_config(shape);
  config.num_hidden_layers = 2;
  config.num_nextn_predict_layers = 0;
  config.quantization = {};
  config.vocab_size = 512;
  config.hidden_size = 512;
  config.intermediate_size = 1024;
  if (config.is_moe()) config.moe.moe_intermediate_size = 768;
  if (config.moe.num_shared_experts > 0) config.moe.shared_expert_intermediate_size = 256;
  return config;
}

models::Checkpoint random_weights(const models::ModelConfig& config) {
  std::vector<formats::SyntheticTensor> tensors;
  const plan::Blueprint blueprint = models::make_blueprint(config);
  blueprint.visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& weight : module.weights)
      tensors.push_back({weight.name, weight.shape});
  });
  return {formats::make_synthetic("x", config.vocab_size, tensors), config};
}

// The bytes of the file that `graft quantize` writes.
std::uint64_t file_bytes(const models::Checkpoint& source, const char* type) {
  std::uint64_t bytes = 0;
  for (const Recipe& recipe : plan_job(source, type).recipes) {
    if (recipe.name != "rope_freqs.weight")
      bytes += bytes_of(recipe.dtype, recipe.num_rows() * recipe.row_elems());
  }
  return bytes;
}

TEST(PlannedTypes, AreThoseOfTheConvertedFile) {
  for (const char* shape : {"llama-8b", "qwen3-30b", "qwen2-57b", "mixtral", "glm-air"}) {
    const models::ModelConfig config = small(shape);
    const models::Checkpoint source = random_weights(config);
    for (const char* type : {"BF16", "Q8_0", "Q4_K_M", "Q3_K_M", "IQ4_XS", "MXFP4"})
      EXPECT_EQ(planned(config, type).weight_bytes(), file_bytes(source, type)) << shape << type;
  }
}

TEST(PlannedTypes, DeepseekV3InQ4KMHasTheKnownSize) {
  const models::ModelConfig config = models::shape_config("DeepSeek-V3");
  const plan::Blueprint blueprint = planned(config, "q4_k_m");
  // The published file has 404 GB; kv_b_proj takes 4 GB in f32 after loading.
  EXPECT_NEAR(static_cast<double>(blueprint.weight_bytes()), 408e9, 8e9);
  const plan::ModuleSpec* kv_b = blueprint.find("model.layers.3.self_attn.kv_b_proj");
  ASSERT_NE(kv_b, nullptr);
  ASSERT_EQ(kv_b->weights.size(), 1U);  // without the FP8 scale
  EXPECT_EQ(kv_b->weights[0].dtype, DType::F32);
  const plan::ModuleSpec* experts = blueprint.find("model.layers.10.mlp.experts");
  ASSERT_NE(experts, nullptr);
  EXPECT_EQ(experts->weights.size(), 3U * 256U);
  EXPECT_EQ(experts->weights[0].dtype, DType::Q4_K);
}

TEST(PlannedTypes, DeepseekV3InFP8HasThePublishedSize) {
  const plan::Blueprint blueprint = planned(models::shape_config("DeepSeek-V3"), "F8_E4M3");
  // 671 B parameters, of which the embedding and the head have 1.9 B in 16 bits.
  EXPECT_NEAR(static_cast<double>(blueprint.weight_bytes()), 673e9, 2e9);
  EXPECT_EQ(blueprint.find("lm_head")->weights[0].dtype, DType::BF16);
  EXPECT_EQ(blueprint.find("model.layers.3.self_attn.kv_b_proj")->weights[0].dtype, DType::F8_E4M3);
  EXPECT_EQ(blueprint.find("model.layers.10.mlp.gate")->weights[0].dtype, DType::F32);
}

TEST(PlannedTypes, AnyQuantizedTypeIsAccepted) {
  EXPECT_EQ(mix_or_type("Q4_K").name, "Q4_K_M");
  EXPECT_EQ(mix_or_type("bf16").base, DType::BF16);
  EXPECT_EQ(mix_or_type("iq2_xs").base, DType::IQ2_XS);
  EXPECT_EQ(mix_or_type("f8_e4m3").base, DType::F8_E4M3);
  for (const char* unknown : {"Q9", "I32", "F64"})
    EXPECT_THROW(mix_or_type(unknown), Error) << unknown;
}

}  // namespace
}  // namespace graft::convert
