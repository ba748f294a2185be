#include <gtest/gtest.h>

#include "graft/models/build/make_blueprint.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/shared_data.h"

namespace graft::models {
namespace {

class Glm4 : public ::testing::Test {
 protected:
  static std::filesystem::path folder() { return shared_data("golden-2026/glm4"); }
};

TEST_F(Glm4, ReadsItsConfigAndWritesItAsGguf) {
  GRAFT_REQUIRE_SHARED(folder());
  const auto checkpoint = open_checkpoint(folder());
  ModelConfig config = checkpoint->config();
  EXPECT_EQ(config.family, find_family("glm4"));
  EXPECT_TRUE(config.attention_bias);
  EXPECT_FALSE(config.attention_output_bias);
  EXPECT_TRUE(config.rope_interleaved);
  EXPECT_EQ(config.rotary_dim, 16);

  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  EXPECT_EQ(metadata.string("general.architecture"), "glm4");
  config.torch_dtype.clear();
  EXPECT_EQ(read_gguf_config(metadata, {}, "test"), config);
}

TEST_F(Glm4, HasNormsAfterBothBlocks) {
  GRAFT_REQUIRE_SHARED(folder());
  const plan::Blueprint blueprint = make_blueprint(*open_checkpoint(folder()));
  const plan::ModuleSpec* layer = blueprint.find("model.layers.1");
  ASSERT_NE(layer, nullptr);
  std::vector<std::string> children;
  for (const plan::ModuleSpec& child : layer->children) {
    children.emplace_back(child.last_name());
    EXPECT_EQ(child.layer, 1) << child.name;
  }
  EXPECT_EQ(children,
            (std::vector<std::string>{"input_layernorm", "self_attn", "post_self_attn_layernorm",
                                      "post_attention_layernorm", "mlp", "post_mlp_layernorm"}));
}

TEST_F(Glm4, FindsItsWeightsAndTheHalvesOfTheFusedMlp) {
  GRAFT_REQUIRE_SHARED(folder());
  const auto checkpoint = open_checkpoint(folder());
  const WeightStore weights(*checkpoint);
  weights.check(make_blueprint(*checkpoint));
  const formats::TensorInfo* fused = checkpoint->find("model.layers.2.mlp.gate_up_proj.weight");
  ASSERT_NE(fused, nullptr);
  const ops::Weight gate = weights.get("model.layers.2.mlp.gate_proj.weight");
  const ops::Weight up = weights.get("model.layers.2.mlp.up_proj.weight");
  EXPECT_EQ(gate.shape, (std::vector<std::int64_t>{256, 128}));
  EXPECT_EQ(gate.data, fused->data.data());
  EXPECT_EQ(up.data, fused->data.data() + fused->data.size() / 2);
}

TEST_F(Glm4, NamesEveryTensorInGguf) {
  GRAFT_REQUIRE_SHARED(folder());
  const auto checkpoint = open_checkpoint(folder());
  for (const formats::TensorInfo& tensor : checkpoint->tensors()) {
    const auto names = to_gguf(checkpoint->config(), tensor.name);
    ASSERT_EQ(names.size(), 1U) << tensor.name;
    EXPECT_EQ(names[0].transform, formats::TensorTransform::Same) << tensor.name;
    EXPECT_EQ(to_huggingface(checkpoint->config(), names[0].name).at(0).name, tensor.name);
  }
}

}  // namespace
}  // namespace graft::models
