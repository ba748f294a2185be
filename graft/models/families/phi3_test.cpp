#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/build/rope.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

TEST(Phi3, FusedProjectionsAreViews) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("phi3"));
  const WeightStore weights(*checkpoint);
  weights.check(make_blueprint(*checkpoint));
  const auto* fused = checkpoint->find("model.layers.1.self_attn.qkv_proj.weight");
  ASSERT_NE(fused, nullptr);
  const std::byte* data = fused->data.data();
  const std::size_t row_bytes = fused->data.size() / 256;
  const auto at = [&](const std::string& name) {
    return weights.get("model.layers.1.self_attn." + name + ".weight");
  };
  EXPECT_EQ(at("q_proj").data, data);
  EXPECT_EQ(at("q_proj").shape, (std::vector<std::int64_t>{128, 128}));
  EXPECT_EQ(at("k_proj").data, data + 128 * row_bytes);
  EXPECT_EQ(at("v_proj").data, data + 192 * row_bytes);
  EXPECT_EQ(at("v_proj").shape, (std::vector<std::int64_t>{64, 128}));
}

// Six frequencies: 16 values of a head, of which 12 rotate.
constexpr const char* kLong = R"({"model_type": "phi3", "hidden_size": 64,
    "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
    "partial_rotary_factor": 0.75, "sliding_window": 2047, "max_position_embeddings": 4096,
    "original_max_position_embeddings": 512, "rope_scaling": {"type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [1, 2, 4, 8, 16, 32.5]}})";

ModelConfig read_long(const std::string& text = kLong) {
  return read_hf_config(parse_json(text, "config"), nullptr, "config");
}

TEST(Phi3, ReadsLongRope) {
  const ModelConfig config = read_long();
  EXPECT_EQ(config.rotary_dim, 12);
  EXPECT_EQ(config.sliding_window, 2047);
  EXPECT_EQ(config.rope.kind, RopeKind::LongRope);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 512);
  EXPECT_NEAR(*config.rope.attention_factor, std::sqrt(1.0 + std::log(8.0) / std::log(512.0)),
              1e-6);
  const ops::RopeParams rope = make_rope(config, {});
  ASSERT_EQ(rope.inv_freq.size(), 6U);
  ASSERT_EQ(rope.long_inv_freq.size(), 6U);
  EXPECT_FLOAT_EQ(rope.inv_freq[5], static_cast<float>(std::pow(1e4, -10.0 / 12.0) / 1.5));
  EXPECT_FLOAT_EQ(rope.long_inv_freq[5], static_cast<float>(std::pow(1e4, -10.0 / 12.0) / 32.5));
  EXPECT_FLOAT_EQ(rope.magnitude, static_cast<float>(*config.rope.attention_factor));
  EXPECT_EQ(make_blueprint(config).long_rope_from, 512);
}

// Constants from the formula of Transformers, computed in Python: 1 / (factor * 1e4^(2 i / 12)),
// and sqrt(1 + ln(factor) / ln(512)) with the ratio of the contexts where "factor" is not given.
TEST(Phi3, LongRopeHasTheNumbersOfTransformers) {
  const std::vector<float> short_freq = {1.0F,           0.195857674F,   0.0386799015F,
                                         0.00769230817F, 0.00153888168F, 0.000309439318F};
  const std::vector<float> long_freq = {1.0F,           0.107721724F,    0.011603971F,
                                        0.00124999997F, 0.000134652146F, 1.42818144e-05F};
  const ops::RopeParams rope = make_rope(read_long(), {});
  for (std::size_t i = 0; i < short_freq.size(); ++i) {
    EXPECT_FLOAT_EQ(rope.inv_freq[i], short_freq[i]) << i;
    EXPECT_FLOAT_EQ(rope.long_inv_freq[i], long_freq[i]) << i;
  }
  EXPECT_FLOAT_EQ(rope.magnitude, 1.15470054F);
  const auto magnitude = [](const std::string& key) {
    std::string text = kLong;
    text.insert(text.find("\"short_factor\""), key);
    return make_rope(read_long(text), {}).magnitude;
  };
  EXPECT_FLOAT_EQ(magnitude(R"("factor": 4.0, )"), 1.1055416F);
  EXPECT_FLOAT_EQ(magnitude(R"("factor": 0.5, )"), 1.0F);
  EXPECT_FLOAT_EQ(magnitude(R"("attention_factor": 1.25, )"), 1.25F);
}

TEST(Phi3, RejectsWrongFactors) {
  std::string text = kLong;
  text.replace(text.find("32.5"), 4, "32, 64");
  EXPECT_THROW(read_long(text), Error);
  text = kLong;
  text.replace(text.find("\"short_factor\""), 14, "\"short_mscale\"");
  EXPECT_THROW(read_long(text), Error);
}

// The factors are tensors of the file.
TEST(Phi3, LongRopeRoundTripsThroughGguf) {
  ModelConfig config = read_long();
  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  EXPECT_EQ(metadata.string("general.architecture"), "phi3");
  EXPECT_EQ(metadata.integer("phi3.rope.scaling.original_context_length"), 512);
  EXPECT_TRUE(metadata.number("phi3.rope.scaling.attn_factor").has_value());
  const std::vector<RopeTensor> factors = rope_tensors(config);
  std::vector<formats::TensorInfo> tensors;
  for (const RopeTensor& factor : factors) {
    formats::TensorInfo& tensor = tensors.emplace_back();
    tensor.name = factor.name;
    tensor.dtype = DType::F32;
    tensor.shape = {static_cast<std::int64_t>(factor.values.size())};
    tensor.data = std::as_bytes(std::span(factor.values));
  }
  formats::TensorInfo& output = tensors.emplace_back();
  output.name = "output.weight";
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].name, "rope_factors_long.weight");
  EXPECT_EQ(read_gguf_config(metadata, tensors, "test"), config);
}

}  // namespace
}  // namespace graft::models
