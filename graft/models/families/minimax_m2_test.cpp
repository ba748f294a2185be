#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

TEST(MinimaxM2, ReadsItsConfigAndWritesItAsGguf) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("minimax-m2"));
  ModelConfig config = checkpoint->config();
  EXPECT_EQ(config.family, find_family("minimax_m2"));
  EXPECT_TRUE(config.qk_norm_all_heads);
  EXPECT_EQ(config.rotary_dim, 16);
  EXPECT_EQ(config.moe.moe_intermediate_size, 64);
  EXPECT_EQ(config.moe.scoring_func, RouterScoring::Sigmoid);
  EXPECT_EQ(config.moe.topk_method, RouterMethod::NoauxTc);
  EXPECT_TRUE(config.moe.norm_topk_prob);

  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  EXPECT_EQ(metadata.string("general.architecture"), "minimax-m2");
  EXPECT_EQ(metadata.integer("minimax-m2.rope.dimension_count"), 16);
  EXPECT_EQ(metadata.integer("minimax-m2.expert_gating_func"), 2);
  config.torch_dtype.clear();
  EXPECT_EQ(read_gguf_config(metadata, {}, "test"), config);
}

TEST(MinimaxM2, NormsSpanAllHeads) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("minimax-m2"));
  const plan::Blueprint blueprint = make_blueprint(*checkpoint);
  const plan::ModuleSpec* attention = blueprint.find("model.layers.1.self_attn");
  ASSERT_NE(attention, nullptr);
  EXPECT_TRUE(std::get<ops::AttentionParams>(attention->params).qk_norm_all_heads);
  const auto size = [&](const std::string& name) {
    return std::get<ops::NormParams>(blueprint.find("model.layers.1.self_attn." + name)->params)
        .size;
  };
  EXPECT_EQ(size("q_norm"), 4 * 32);
  EXPECT_EQ(size("k_norm"), 2 * 32);
}

// The bias is a tensor of the block, and a weight of its router.
TEST(MinimaxM2, FindsAllWeights) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("minimax-m2"));
  const WeightStore weights(*checkpoint);
  weights.check(make_blueprint(*checkpoint));
  const auto bias = weights.get("model.layers.2.block_sparse_moe.gate.e_score_correction_bias");
  const auto* stored = checkpoint->find("model.layers.2.block_sparse_moe.e_score_correction_bias");
  ASSERT_NE(stored, nullptr);
  EXPECT_EQ(bias.data, stored->data.data());
  const auto names = to_gguf(checkpoint->config(), stored->name);
  ASSERT_EQ(names.size(), 1U);
  EXPECT_EQ(names[0].name, "blk.2.exp_probs_b.bias");
}

std::string problem_of(const std::string& keys) {
  const std::string text = R"({"model_type": "minimax_m2", "num_hidden_layers": 2)" + keys + "}";
  try {
    read_hf_config(parse_json(text, "config"), nullptr, "config");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MinimaxM2, RejectsWhatItDoesNotSupport) {
  EXPECT_EQ(problem_of(R"(, "rotary_dim": 64, "attn_type_list": [1, 1])"), "");
  EXPECT_NE(problem_of(R"(, "attn_type_list": [1, 0])").find("attn_type_list"), std::string::npos);
  EXPECT_NE(problem_of(R"(, "qk_norm_type": "per_head")").find("per_layer"), std::string::npos);
  EXPECT_NE(problem_of(R"(, "shared_intermediate_size": 64)").find("shared_intermediate_size"),
            std::string::npos);
  EXPECT_NE(problem_of(R"(, "rotary_dim": 129)").find("rotary_dim"), std::string::npos);
}

}  // namespace
}  // namespace graft::models
