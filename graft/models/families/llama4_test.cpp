#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/build/shapes.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

ModelConfig llama4_config(const std::string& keys) {
  const std::string text =
      str(R"({"model_type": "llama4_text", "num_hidden_layers": 4)", keys, "}");
  return read_hf_config(parse_json(text, "test"), nullptr, "test");
}

std::string llama4_problem(const std::string& keys) {
  try {
    llama4_config(keys);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Llama4, HasTheDefaultsOfTransformers) {
  const ModelConfig config = llama4_config("");
  EXPECT_EQ(config.attention_chunk_size, 8192);
  EXPECT_EQ(config.rope_layers, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(config.temperature_floor, 8192);
  EXPECT_EQ(config.temperature_scale, 0.1);
  EXPECT_TRUE(config.qk_l2_norm && config.rope_interleaved && config.moe.scales_input);
  EXPECT_EQ(config.intermediate_size, 16384);
  EXPECT_EQ(config.moe.moe_intermediate_size, 8192);
  EXPECT_EQ(config.moe.shared_expert_intermediate_size, 8192);
  EXPECT_EQ(config.moe.scoring_func, RouterScoring::Sigmoid);
  EXPECT_TRUE(config.layer_has_experts(0));
}

TEST(Llama4, ReadsTheTextModelOfAMultimodalConfig) {
  const ModelConfig config =
      read_hf_config(parse_json(R"({"model_type": "llama4", "text_config": {"num_hidden_layers": 8,
        "attn_temperature_tuning": 4, "interleave_moe_layer_step": 2}})",
                                "test"),
                     nullptr, "test");
  EXPECT_EQ(config.num_hidden_layers, 8);
  EXPECT_EQ(config.temperature_floor, 8192);
  EXPECT_FALSE(config.layer_has_experts(0));
  EXPECT_TRUE(config.layer_has_experts(1));
  EXPECT_EQ(stored_names(*config.family, "model.layers.1.feed_forward.router.weight").at(0),
            "language_model.model.layers.1.feed_forward.router.weight");
}

TEST(Llama4, WritesItsConfigAsGguf) {
  for (const char* keys :
       {"", R"(, "attention_chunk_size": 32, "floor_scale": 16, "attn_scale": 0.25)",
        R"(, "attn_temperature_tuning": false, "use_qk_norm": false)",
        R"(, "num_local_experts": 128, "use_qk_norm": false, "interleave_moe_layer_step": 2)",
        R"(, "no_rope_layers": [1, 0, 1, 0])", R"(, "no_rope_layers": [0, 1, 1, 0])",
        R"(, "no_rope_layers": [1, 1, 1, 1], "attention_chunk_size": null)",
        R"(, "moe_layers": [0, 3])"}) {
    const ModelConfig config = llama4_config(keys);
    formats::GgufMetadata metadata;
    write_gguf_config(config, metadata);
    EXPECT_EQ(read_gguf_config(metadata, {}, "test"), config) << keys;
  }
  // llama3 scaling whose two factors are equal.
  const ModelConfig scout = shape_config("llama4-scout");
  EXPECT_EQ(scout.rope.kind, RopeKind::Llama3);
  const std::vector<float> divisors = rope_freqs(scout);
  EXPECT_EQ(divisors.front(), 1.0F);
  EXPECT_EQ(divisors.back(), 16.0F);
}

TEST(Llama4, RejectsWhatItDoesNotSupport) {
  EXPECT_NE(llama4_problem(R"(, "num_experts_per_tok": 2)").find("num_experts_per_tok"),
            std::string::npos);
  EXPECT_NE(llama4_problem(R"(, "no_rope_layers": [1, 0])").find("no_rope_layers"),
            std::string::npos);
  EXPECT_NE(llama4_problem(R"(, "layer_types": ["full_attention"])").find("chunked_attention"),
            std::string::npos);
  EXPECT_NE(llama4_problem(R"(, "num_local_experts": 0)").find("num_local_experts"),
            std::string::npos);
}

TEST(Llama4, ChunksLayersWithRope) {
  const plan::Blueprint blueprint = make_blueprint(*open_checkpoint(golden_checkpoint("llama4")));
  const auto params = [&](const std::string& layer) {
    return std::get<ops::AttentionParams>(
        blueprint.find(str("model.layers.", layer, ".self_attn"))->params);
  };
  EXPECT_EQ(params("0").chunk, 32);
  EXPECT_TRUE(params("0").qk_norm);
  EXPECT_EQ(params("0").temperature_floor, 0);
  EXPECT_EQ(params("3").chunk, 0);
  EXPECT_FALSE(params("3").qk_norm);
  EXPECT_EQ(params("3").temperature_floor, 16);
  EXPECT_EQ(blueprint.find("model.layers.3.self_attn.rotary_emb"), nullptr);
  EXPECT_NE(blueprint.find("model.layers.0.self_attn.qk_norm"), nullptr);
  EXPECT_EQ(blueprint.find("model.layers.0.feed_forward")->role, ops::Role::Mlp);
  EXPECT_EQ(blueprint.find("model.layers.1.feed_forward")->role, ops::Role::Moe);
  EXPECT_NE(blueprint.find("model.layers.1.feed_forward.shared_expert"), nullptr);
}

// Column r of gate_up_proj is row r of gate_proj, column rows + r row r of up_proj.
TEST(Llama4, TransposesAndSeparatesGateAndUp) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("llama4"));
  const WeightStore weights(*checkpoint);
  weights.check(make_blueprint(*checkpoint));
  const std::string experts = "model.layers.1.feed_forward.experts.";
  const formats::TensorInfo* merged = checkpoint->find(experts + "gate_up_proj");
  ASSERT_NE(merged, nullptr);
  const std::int64_t in = merged->shape[1];
  const std::int64_t out = merged->shape[2];
  constexpr std::int64_t kExpert = 2;
  for (const std::int64_t half : {0, 1}) {
    const ops::Weight weight =
        weights.get(str(experts, kExpert, half == 0 ? ".gate_proj" : ".up_proj", ".weight"));
    ASSERT_EQ(weight.shape, (std::vector<std::int64_t>{out / 2, in}));
    for (std::int64_t row = 0; row < out / 2; ++row) {
      for (std::int64_t col = 0; col < in; ++col) {
        const std::byte* stored =
            merged->data.data() + ((kExpert * in + col) * out + half * (out / 2) + row) * 2;
        ASSERT_EQ(std::memcmp(weight.data + (row * in + col) * 2, stored, 2), 0)
            << row << ' ' << col;
      }
    }
  }
}

TEST(Llama4, NamesEveryTensorInGguf) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("llama4"));
  for (const formats::TensorInfo& tensor : checkpoint->tensors()) {
    const std::size_t want = tensor.name.ends_with("gate_up_proj") ? 2 : 1;
    EXPECT_EQ(to_gguf(checkpoint->config(), tensor.name).size(), want) << tensor.name;
  }
  const ModelConfig config = llama4_config("");
  EXPECT_EQ(to_gguf(config, "model.layers.1.feed_forward.router.weight").at(0).name,
            "blk.1.ffn_gate_inp.weight");
  EXPECT_EQ(to_gguf(config, "model.layers.1.feed_forward.shared_expert.up_proj.weight").at(0).name,
            "blk.1.ffn_up_shexp.weight");
}

}  // namespace
}  // namespace graft::models
