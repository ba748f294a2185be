#include <cstdint>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/quant/blocks.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

ModelConfig gpt_oss_config(const std::string& keys) {
  const std::string text = str(R"({"model_type": "gpt_oss", "num_hidden_layers": 4)",
                               keys.empty() ? "" : ", ", keys, "}");
  return read_hf_config(parse_json(text, "test"), nullptr, "test");
}

ModelConfig through_gguf(const ModelConfig& config) {
  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  return read_gguf_config(metadata, {}, "test");
}

TEST(GptOss, HasTheDefaultsOfTransformers) {
  const ModelConfig config = gpt_oss_config("");
  EXPECT_EQ(config.family, find_family("gpt_oss"));
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.moe.num_experts, 128);
  EXPECT_EQ(config.moe.num_experts_per_tok, 4);
  EXPECT_EQ(config.moe.moe_intermediate_size, 2880);
  EXPECT_TRUE(config.moe.norm_topk_prob && config.moe.router_bias && config.moe.expert_bias);
  EXPECT_EQ(config.moe.swiglu_limit, 7.0);
  EXPECT_TRUE(config.attention_bias && config.attention_output_bias && config.attention_sinks);
  EXPECT_EQ(config.sliding_window, 128);
  EXPECT_EQ(config.window_layers, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(config.rope.kind, RopeKind::Yarn);
  EXPECT_EQ(config.rope.factor, 32.0);
  EXPECT_FALSE(config.rope.truncate);
}

TEST(GptOss, WritesItsConfigAsGguf) {
  for (
      const char* keys : {
          R"("sliding_window": 16)",
          R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"])",
          R"("layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"])",
          R"("layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"])",
          R"("sliding_window": null)",
          R"("swiglu_limit": 3.5, "num_local_experts": 8)",
          R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512})",
      }) {
    const ModelConfig config = gpt_oss_config(keys);
    EXPECT_EQ(through_gguf(config), config) << keys;
  }
}

TEST(GptOss, AlternatesWindowsAndHasSinks) {
  const plan::Blueprint blueprint = make_blueprint(*open_checkpoint(golden_checkpoint("gpt-oss")));
  for (const std::int64_t layer : {0, 1, 2, 3}) {
    const plan::ModuleSpec* module = blueprint.find(str("model.layers.", layer, ".self_attn"));
    ASSERT_NE(module, nullptr);
    const auto& params = std::get<ops::AttentionParams>(module->params);
    EXPECT_EQ(params.sliding_window, layer % 2 == 0 ? 16 : 0);
    EXPECT_TRUE(params.sinks);
  }
  EXPECT_NE(blueprint.find("model.layers.2.mlp.router"), nullptr);
}

TEST(GptOss, RejectsOtherLayerTypes) {
  for (const char* types :
       {R"(["full_attention"])",
        R"(["full_attention", "full_attention", "full_attention", "linear"])"}) {
    EXPECT_THROW(gpt_oss_config(str(R"("layer_types": )", types)), Error) << types;
  }
}

// Column 2 r of gate_up_proj is row r of gate_proj, 2 r + 1 of up_proj.
TEST(GptOss, TransposesAndSeparatesGateAndUp) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("gpt-oss"));
  const WeightStore weights(*checkpoint);
  weights.check(make_blueprint(*checkpoint));
  const std::string experts = "model.layers.1.mlp.experts.";
  const formats::TensorInfo* merged = checkpoint->find(experts + "gate_up_proj");
  const formats::TensorInfo* biases = checkpoint->find(experts + "gate_up_proj_bias");
  ASSERT_TRUE(merged != nullptr && biases != nullptr);
  const std::int64_t in = merged->shape[1];
  const std::int64_t out = merged->shape[2];
  constexpr std::int64_t kExpert = 5;
  for (const std::int64_t odd : {0, 1}) {
    const std::string name = str(experts, kExpert, odd == 0 ? ".gate_proj" : ".up_proj");
    const ops::Weight weight = weights.get(name + ".weight");
    const ops::Weight bias = weights.get(name + ".bias");
    ASSERT_EQ(weight.shape, (std::vector<std::int64_t>{out / 2, in}));
    ASSERT_EQ(bias.shape, (std::vector<std::int64_t>{out / 2}));
    EXPECT_EQ(weight.dtype, DType::BF16);
    for (std::int64_t row = 0; row < out / 2; ++row) {
      EXPECT_EQ(std::memcmp(bias.data + row * 2,
                            biases->data.data() + (kExpert * out + 2 * row + odd) * 2, 2),
                0);
      for (std::int64_t col = 0; col < in; ++col) {
        const std::byte* stored =
            merged->data.data() + ((kExpert * in + col) * out + 2 * row + odd) * 2;
        ASSERT_EQ(std::memcmp(weight.data + (row * in + col) * 2, stored, 2), 0)
            << row << ' ' << col;
      }
    }
  }
}

// Codes and scales keep their bits; only the order of the codes in a block differs.
TEST(GptOss, RepacksPublishedMxfp4) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("gpt-oss-mxfp4"));
  const WeightStore weights(*checkpoint);
  weights.check(make_blueprint(*checkpoint));
  const std::string experts = "model.layers.0.mlp.experts.";
  const formats::TensorInfo* codes = checkpoint->find(experts + "gate_up_proj_blocks");
  const formats::TensorInfo* scales = checkpoint->find(experts + "gate_up_proj_scales");
  ASSERT_TRUE(codes != nullptr && scales != nullptr);
  constexpr std::int64_t kExpert = 3;
  const std::int64_t num_rows = codes->shape[1];
  const std::int64_t num_blocks = codes->shape[2];
  const ops::Weight up = weights.get(str(experts, kExpert, ".up_proj.weight"));
  ASSERT_EQ(up.dtype, DType::MXFP4);
  ASSERT_EQ(up.shape, (std::vector<std::int64_t>{num_rows / 2, num_blocks * 32}));
  const auto* blocks = reinterpret_cast<const quant::BlockMXFP4*>(up.data);
  for (std::int64_t row = 0; row < num_rows / 2; ++row) {
    for (std::int64_t b = 0; b < num_blocks; ++b) {
      const std::int64_t stored = (kExpert * num_rows + 2 * row + 1) * num_blocks + b;
      const quant::BlockMXFP4& block = blocks[row * num_blocks + b];
      EXPECT_EQ(block.e,
                std::to_integer<std::uint8_t>(scales->data[static_cast<std::size_t>(stored)]));
      for (std::int64_t i = 0; i < 32; ++i) {
        const auto byte =
            std::to_integer<unsigned>(codes->data[static_cast<std::size_t>(stored * 16 + i / 2)]);
        const unsigned want = i % 2 == 0 ? byte & 15U : byte >> 4U;
        const unsigned pair = block.quants[i % 16];
        EXPECT_EQ(i < 16 ? pair & 15U : pair >> 4U, want);
      }
    }
  }
}

TEST(GptOss, NamesEveryTensorInGguf) {
  for (const char* name : {"gpt-oss", "gpt-oss-mxfp4"}) {
    const auto checkpoint = open_checkpoint(golden_checkpoint(name));
    for (const formats::TensorInfo& tensor : checkpoint->tensors()) {
      const bool is_scale = tensor.name.ends_with("_scales");
      const std::size_t want = is_scale                                                ? 0
                               : tensor.name.find("gate_up_proj") == std::string::npos ? 1
                                                                                       : 2;
      EXPECT_EQ(to_gguf(checkpoint->config(), tensor.name).size(), want) << tensor.name;
    }
  }
  const ModelConfig config = gpt_oss_config("");
  EXPECT_EQ(to_gguf(config, "model.layers.1.self_attn.sinks").at(0).name,
            "blk.1.attn_sinks.weight");
  EXPECT_EQ(to_gguf(config, "model.layers.1.post_attention_layernorm.weight").at(0).name,
            "blk.1.post_attention_norm.weight");
  EXPECT_EQ(to_gguf(config, "model.layers.1.mlp.router.bias").at(0).name,
            "blk.1.ffn_gate_inp.bias");
}

}  // namespace
}  // namespace graft::models
