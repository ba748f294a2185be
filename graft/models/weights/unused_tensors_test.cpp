#include "graft/models/weights/unused_tensors.h"

#include <vector>

#include <gtest/gtest.h>

namespace graft::models {
namespace {

using formats::TensorInfo;

std::vector<TensorInfo> named(const std::vector<std::string>& names) {
  std::vector<TensorInfo> tensors(names.size());
  for (std::size_t i = 0; i < names.size(); ++i)
    tensors[i].name = names[i];
  return tensors;
}

std::string problem_of(const std::vector<std::string>& names) {
  ModelConfig config;
  config.num_hidden_layers = 2;
  return unused_tensors_problem(named(names), {}, config);
}

TEST(UnusedTensors, AreAnErrorUnlessKnownOptional) {
  EXPECT_EQ(problem_of({"model.layers.1.self_attn.q_proj.bias"}),
            "1 tensor is not used: model.layers.1.self_attn.q_proj.bias");
  EXPECT_EQ(problem_of({"blk.2.attn_q.weight", "blk.3.attn_q.weight"}),
            "the files have 4 layers, the configuration counts 2; 2 tensors are not used: "
            "blk.2.attn_q.weight, blk.3.attn_q.weight");
  EXPECT_TRUE(problem_of({"a", "b", "c", "d", "e"}).ends_with("a, b, c, d, …"));
  for (const char* name :
       {"model.layers.0.self_attn.rotary_emb.inv_freq", "rope_freqs.weight", "lm_head.weight",
        "model.layers.0.self_attn.k_proj.k_scale", "mtp.layers.0.mlp.gate.weight",
        "model.vision_tower.layers.9.mlp.weight", "blk.0.attn_kv_b.weight"})
    EXPECT_EQ(problem_of({name}), "") << name;
}

TEST(UnusedTensors, LayersThatPredictFurtherTokensAreOptional) {
  EXPECT_EQ(problem_of({"model.layers.2.eh_proj.weight", "model.layers.2.mlp.gate.weight"}), "");
  EXPECT_NE(problem_of({"model.layers.2.eh_proj.weight", "model.layers.3.mlp.gate.weight"}), "");
}

TEST(UnusedTensors, OfOtherModalitiesAreNamed) {
  EXPECT_EQ(modality_warning(named({"model.norm.weight"}), {}), "");
  EXPECT_EQ(modality_warning(named({"vision_tower.a", "multi_modal_projector.b", "lm_head.c"}), {}),
            "only the text model is used: 2 tensors for images or sound are ignored");
}

}  // namespace
}  // namespace graft::models
