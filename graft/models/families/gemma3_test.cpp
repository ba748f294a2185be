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

ModelConfig read_gemma(const std::string& text) {
  return read_hf_config(parse_json(text, "config"), nullptr, "config");
}

TEST(Gemma3, LayersAlternateBetweenLocalAndGlobal) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("gemma3"));
  const plan::Blueprint blueprint = make_blueprint(*checkpoint);
  const auto attention = [&](int layer) {
    return std::get<ops::AttentionParams>(
        blueprint.find(str("model.layers.", layer, ".self_attn"))->params);
  };
  const auto theta = [&](int layer) {
    return std::get<ops::RopeParams>(
               blueprint.find(str("model.layers.", layer, ".self_attn.rotary_emb"))->params)
        .theta;
  };
  EXPECT_EQ(attention(2).sliding_window, 16);
  EXPECT_EQ(attention(3).sliding_window, 0);
  EXPECT_EQ(theta(2), 10000.0);
  EXPECT_EQ(theta(3), 1000000.0);
  std::vector<std::string> children;
  for (const plan::ModuleSpec& child : blueprint.find("model.layers.0")->children)
    children.emplace_back(child.last_name());
  EXPECT_EQ(children, (std::vector<std::string>{
                          "input_layernorm", "self_attn", "post_attention_layernorm",
                          "pre_feedforward_layernorm", "mlp", "post_feedforward_layernorm"}));
}

TEST(Gemma3, NormsAreOnePlusTheWeight) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("gemma3"));
  const WeightStore weights(*checkpoint);
  weights.check(make_blueprint(*checkpoint));
  for (const std::string name : {"model.norm.weight", "model.layers.1.self_attn.q_norm.weight"}) {
    const auto* stored = checkpoint->find(name);
    ASSERT_NE(stored, nullptr);
    const ops::Weight weight = weights.get(name);
    EXPECT_EQ(weight.dtype, DType::F32);
    // Values of the recipe are near 1, so those of the norms are near 2.
    double sum = 0;
    for (const float value : weight.decode())
      sum += static_cast<double>(value);
    EXPECT_NEAR(sum / static_cast<double>(stored->num_elems()), 2.0, 0.1);
    const auto mapped = to_gguf(checkpoint->config(), name);
    ASSERT_EQ(mapped.size(), 1U);
    EXPECT_EQ(mapped[0].transform, formats::TensorTransform::PlusOne);
  }
  EXPECT_EQ(to_gguf(checkpoint->config(), "model.layers.0.post_attention_layernorm.weight")[0].name,
            "blk.0.post_attention_norm.weight");
  EXPECT_EQ(to_gguf(checkpoint->config(), "model.embed_tokens.weight")[0].transform,
            formats::TensorTransform::Same);
}

TEST(Gemma3, RoundTripsThroughGguf) {
  for (const char* keys :
       {R"("num_hidden_layers": 26)", R"("num_hidden_layers": 62, "hidden_size": 5376,
        "num_attention_heads": 32, "query_pre_attn_scalar": 168,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0})",
        R"("num_hidden_layers": 3, "query_pre_attn_scalar": 200, "sliding_window_pattern": 2)",
        R"("num_hidden_layers": 3, "layer_types": ["full_attention", "full_attention",
        "sliding_attention"])"}) {
    ModelConfig config = read_gemma(str(R"({"model_type": "gemma3_text", )", keys, "}"));
    formats::GgufMetadata metadata;
    write_gguf_config(config, metadata);
    EXPECT_EQ(metadata.string("general.architecture"), "gemma3");
    const std::vector<formats::TensorInfo> tensors = [] {
      std::vector<formats::TensorInfo> made(1);
      made[0].name = "blk.0.attn_q_norm.weight";
      return made;
    }();
    EXPECT_EQ(read_gguf_config(metadata, tensors, "test"), config) << keys;
  }
}

TEST(Gemma3, WritesThePeriodOfTheWindows) {
  const ModelConfig config =
      read_gemma(R"({"model_type": "gemma3_text", "sliding_window_pattern": 3})");
  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  EXPECT_EQ(metadata.integer("gemma3.attention.sliding_window_pattern"), 3);
}

// As llama.cpp's converter writes it: without keys for the period and the local base.
TEST(Gemma3, AbsentKeysOfGgufHaveTheDefaultsOfLlamaCpp) {
  const ModelConfig config = read_gemma(R"({"model_type": "gemma3_text", "head_dim": 128})");
  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  for (const char* key :
       {"gemma3.rope.freq_base_swa", "graft.query_pre_attn_scalar", "graft.model_type"})
    metadata.erase(key);
  const ModelConfig got = read_gguf_config(metadata, {}, "test");
  EXPECT_EQ(got.window_layers, config.window_layers);
  EXPECT_EQ(got.local_rope_theta, 10000.0);
  EXPECT_EQ(got.query_pre_attn_scalar, 128.0);
  EXPECT_EQ(got.hidden_act, "gelu_pytorch_tanh");
}

TEST(Gemma3, ReadsTheTextPartOfTheMultimodalModel) {
  const ModelConfig config = read_gemma(R"({"model_type": "gemma3", "text_config":
      {"hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024,
       "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}, "vision_config": {}})");
  EXPECT_EQ(config.hidden_size, 2560);
  EXPECT_EQ(config.rope.kind, RopeKind::Linear);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(to_gguf(config, "language_model.model.layers.3.input_layernorm.weight")[0].name,
            "blk.3.attn_norm.weight");
  EXPECT_EQ(to_gguf(config, "model.language_model.norm.weight")[0].name, "output_norm.weight");
}

TEST(Gemma3, RejectsCappedLogits) {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    try {
      read_gemma(str(R"({"model_type": "gemma3_text", ")", key, R"(": 30.0})"));
      FAIL() << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace graft::models
