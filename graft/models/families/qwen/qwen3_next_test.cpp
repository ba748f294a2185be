#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/formats/delta_heads.h"
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

ModelConfig hybrid_config(const std::string& type, const std::string& keys) {
  const std::string text = str(R"({"num_hidden_layers": 4, "model_type": ")", type, '"',
                               keys.empty() ? "" : ", ", keys, "}");
  return read_hf_config(parse_json(text, "test"), nullptr, "test");
}

ModelConfig hybrid_through_gguf(const ModelConfig& config) {
  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  return read_gguf_config(metadata, {}, "test");
}

TEST(Qwen3Next, HasTheDefaultsOfTransformers) {
  const ModelConfig next = hybrid_config("qwen3_next", "");
  EXPECT_EQ(next.family, find_family("qwen3_next"));
  EXPECT_EQ(next.head_dim, 256);
  EXPECT_EQ(next.rotary_dim, 64);
  EXPECT_EQ(next.moe.num_experts, 512);
  EXPECT_EQ(next.moe.num_experts_per_tok, 10);
  EXPECT_TRUE(next.moe.norm_topk_prob && next.moe.shared_expert_gate && next.qk_norm &&
              next.attention_output_gate);
  EXPECT_EQ(next.delta_net.num_value_heads, 32);
  EXPECT_EQ(next.delta_net.layers, (std::vector<bool>{true, true, true, false}));
  const ModelConfig moe = hybrid_config("qwen3_5_moe_text", R"("full_attention_interval": 2)");
  EXPECT_EQ(moe.vocab_size, 248320);
  EXPECT_EQ(moe.moe.num_experts, 256);
  EXPECT_EQ(moe.delta_net.layers, (std::vector<bool>{true, false, true, false}));
}

TEST(Qwen3Next, ReadsTheTextPartOfTheMultimodalModel) {
  const ModelConfig config =
      read_hf_config(parse_json(R"({"model_type": "qwen3_5_moe", "tie_word_embeddings": true,
                     "text_config": {"num_hidden_layers": 8, "hidden_size": 512,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 10000000,
                     "partial_rotary_factor": 0.5, "mrope_section": [11, 11, 10]}}})",
                                "test"),
                     nullptr, "test");
  EXPECT_EQ(config.num_hidden_layers, 8);
  EXPECT_EQ(config.rotary_dim, 128);
  EXPECT_EQ(config.rope.theta, 1e7);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(to_gguf(config, "model.language_model.layers.0.linear_attn.norm.weight"),
            (std::vector<MappedName>{{.name = "blk.0.ssm_norm.weight"}}));
  EXPECT_TRUE(to_gguf(config, "model.visual.blocks.0.attn.qkv.weight").empty());
}

TEST(Qwen3Next, WritesItsConfigAsGguf) {
  for (
      const char* keys :
      {"", R"("linear_num_key_heads": 4, "linear_num_value_heads": 12)",
       R"("linear_key_head_dim": 64, "linear_value_head_dim": 96, "linear_conv_kernel_dim": 3)",
       R"("layer_types": ["linear_attention", "full_attention", "full_attention", "full_attention"])",
       R"("layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])"}) {
    const ModelConfig next = hybrid_config("qwen3_next", keys);
    EXPECT_EQ(hybrid_through_gguf(next), next) << keys;
    ModelConfig moe = hybrid_config("qwen3_5_moe_text", keys);
    const ModelConfig read = hybrid_through_gguf(moe);
    moe.delta_net.tiled_value_heads = true;  // the order of GGUF files
    EXPECT_EQ(read, moe) << keys;
  }
}

// llama.cpp gives pair i the position of section i % 3, if the section has more than i / 3 pairs.
TEST(Qwen3Next, SectionsOfRopeCoverEveryPair) {
  for (const int rotary_dim : {8, 32, 64, 126, 128, 132}) {
    ModelConfig config = hybrid_config("qwen3_5_moe_text", "");
    config.rotary_dim = rotary_dim;
    formats::GgufMetadata metadata;
    write_gguf_config(config, metadata);
    const auto sections = metadata.array("qwen35moe.rope.dimension_sections")->integers().value();
    ASSERT_EQ(sections.size(), 4U);
    for (int pair = 0; pair < rotary_dim / 2; ++pair)
      EXPECT_LT(pair / 3, sections[static_cast<std::size_t>(pair % 3)])
          << rotary_dim << ' ' << pair;
    EXPECT_EQ(sections[0] + sections[1] + sections[2], rotary_dim / 2);
    if (rotary_dim == 64) {
      EXPECT_EQ(sections, (std::vector<std::int64_t>{11, 11, 10, 0}));
    }
  }
}

TEST(Qwen3Next, RejectsInvalidKeys) {
  const auto error_of = [](const std::string& keys) {
    try {
      hybrid_config("qwen3_next", keys);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(error_of(R"("layer_types": ["linear_attention"])").find("layer_types"),
            std::string::npos);
  EXPECT_NE(error_of(R"("linear_num_value_heads": 24)").find("a multiple of the 16 key heads"),
            std::string::npos);
  EXPECT_NE(error_of(R"("linear_conv_kernel_dim": 99)").find("linear_conv_kernel_dim"),
            std::string::npos);
  EXPECT_NE(error_of(R"("layer_types": ["linear_attention", "linear_attention",
                     "linear_attention", "linear_attention"])")
                .find("one full_attention or more"),
            std::string::npos);
}

TEST(Qwen3Next, HasStatesOrKeysAndValuesInEachLayer) {
  const plan::Blueprint blueprint =
      make_blueprint(*open_checkpoint(golden_checkpoint("qwen3-next")));
  const plan::ModuleSpec* net = blueprint.find("model.layers.1.linear_attn");
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(net->class_name, "Qwen3NextGatedDeltaNet");
  EXPECT_EQ(std::get<ops::DeltaNetParams>(net->params).conv_channels(), 2 * 2 * 16 + 4 * 24);
  const auto& states = std::get<ops::StateCacheParams>(
      blueprint.find("model.layers.1.linear_attn.state_cache")->params);
  EXPECT_EQ(states.recurrent_size, 4 * 16 * 24);
  EXPECT_EQ(states.conv_size, 3 * 160);
  EXPECT_EQ(blueprint.find("model.layers.1.self_attn"), nullptr);
  const plan::ModuleSpec* attention = blueprint.find("model.layers.3.self_attn");
  ASSERT_NE(attention, nullptr);
  EXPECT_TRUE(std::get<ops::AttentionParams>(attention->params).output_gate);
}

// A fused row is found where the formula of Transformers' modeling file reads it.
TEST(Qwen3Next, SplitsFusedRowsByKeyHead) {
  const formats::DeltaHeads heads = {
      .num_key_heads = 2, .num_value_heads = 4, .key_dim = 3, .value_dim = 5};
  using enum formats::TensorTransform;
  const std::int64_t group = 2 * 3 + 2 * 2 * 5;                // q, k, v and z of a key head
  EXPECT_EQ(heads.source_row(QkvzQkv, 1), 1);                  // q of head 0
  EXPECT_EQ(heads.source_row(QkvzQkv, 4), group + 1);          // q of head 1
  EXPECT_EQ(heads.source_row(QkvzQkv, 6 + 4), group + 3 + 1);  // k of head 1
  EXPECT_EQ(heads.source_row(QkvzQkv, 12 + 3 * 5 + 2), group + 6 + 5 + 2);  // v of head 3
  EXPECT_EQ(heads.source_row(QkvzZ, 5), 6 + 10 + 5);                        // z of head 1
  EXPECT_EQ(heads.source_row(BaB, 3), 5);
  EXPECT_EQ(heads.source_row(BaA, 2), 6);
  // Tiled: heads 0, 2, 1, 3.
  EXPECT_EQ(heads.source_row(TiledHeads, 1), 2);
  EXPECT_EQ(heads.source_row(TiledValues, 2 * 5 + 1), 5 + 1);
  EXPECT_EQ(heads.source_row(TiledQkv, 11), 11);
  EXPECT_EQ(heads.source_row(TiledQkv, 12 + 5), 12 + 10);
}

TEST(Qwen3Next, ComputesNormsAndDecaysFromStoredWeights) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("qwen3-next"));
  const WeightStore store(*checkpoint);
  const auto first = [&](const std::string& name) { return store.get(name).decode().front(); };
  const auto stored = [&](const std::string& name) {
    const formats::TensorInfo* tensor = checkpoint->find(name);
    float value = 0;
    std::uint32_t bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, tensor->data.data(), 2);  // BF16
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  };
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(first(layer + "input_layernorm.weight"),
            1.0F + stored(layer + "input_layernorm.weight"));
  EXPECT_EQ(first(layer + "linear_attn.norm.weight"), stored(layer + "linear_attn.norm.weight"));
  EXPECT_EQ(first(layer + "linear_attn.A_log"), -std::exp(stored(layer + "linear_attn.A_log")));
}

}  // namespace
}  // namespace graft::models
