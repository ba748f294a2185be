// Weights by their Hugging Face names from files that store them differently: the tests write the
// GGUF form by hand, loading must restore the original.

#include "graft/models/weights/weights.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

using formats::TensorInfo;

// A checkpoint in memory.
class FakeSource final : public formats::WeightSource {
 public:
  explicit FakeSource(std::string_view format) : format_(format) {}

  void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values) {
    data_.push_back(std::move(values));
    tensors_.push_back({.name = name,
                        .dtype = DType::F32,
                        .shape = std::move(shape),
                        .data = std::as_bytes(std::span(data_.back()))});
  }
  void add_bytes(const std::string& name,
                 std::vector<std::int64_t> shape,
                 DType dtype,
                 std::size_t bytes) {
    raw_.emplace_back(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      raw_.back()[i] = static_cast<std::byte>((i * 31 + 7) % 251);
    tensors_.push_back(
        {.name = name, .dtype = dtype, .shape = std::move(shape), .data = raw_.back()});
  }

  std::string_view format() const override { return format_; }
  std::span<const std::filesystem::path> files() const override { return {&path_, 1}; }
  const std::filesystem::path& path() const override { return path_; }
  formats::TokenizerData read_tokenizer(const formats::ModelTokens& /*tokens*/,
                                        std::vector<std::string>& /*warnings*/) const override {
    return {};
  }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  void release(const TensorInfo& /*tensor*/) const override {}

 private:
  std::string format_;
  std::filesystem::path path_ = "fake.gguf";
  std::deque<std::vector<float>> data_;
  std::deque<std::vector<std::byte>> raw_;
  std::vector<TensorInfo> tensors_;
};

// Tensors may be added after construction.
class FakeCheckpoint {
 public:
  FakeCheckpoint(std::string_view format, ModelConfig config)
      : FakeCheckpoint(std::make_unique<FakeSource>(format), std::move(config)) {}

  FakeSource* operator->() { return tensors_; }
  operator const Checkpoint&() const { return checkpoint_; }  // NOLINT

 private:
  FakeCheckpoint(std::unique_ptr<FakeSource> source, ModelConfig config)
      : tensors_(source.get()), checkpoint_(std::move(source), std::move(config)) {}

  FakeSource* tensors_;
  Checkpoint checkpoint_;
};

std::vector<float> counting(std::size_t count, float first = 0.0F) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = first + static_cast<float>(i);
  return values;
}

ModelConfig tiny(std::string_view model_type) {
  ModelConfig config;
  config.family = find_family(model_type);
  config.vocab_size = 8;
  config.hidden_size = 4;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 4;
  config.rotary_dim = 4;
  return config;
}

TEST(CheckpointWeights, MapsSafetensorsWithoutCopy) {
  FakeCheckpoint source("safetensors", tiny("llama"));
  source->add("model.norm.weight", {4}, {1, 2, 3, 4});
  CheckpointWeights weights(source);
  const ops::Weight norm = weights.get("model.norm.weight");
  EXPECT_EQ(norm.decode(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(norm.owned, nullptr);
  EXPECT_FALSE(weights.contains("lm_head.weight"));
}

TEST(CheckpointWeights, NamesAMissingWeightAndItsFile) {
  FakeCheckpoint source("safetensors", tiny("llama"));
  CheckpointWeights weights(source);
  try {
    weights.get("lm_head.weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "fake.gguf: weight lm_head.weight is missing");
  }
}

TEST(CheckpointWeights, RestoresHalvesFromPairedRows) {
  FakeCheckpoint source("GGUF v3", tiny("llama"));
  // One head of four rows: neighbours (0, 1), (2, 3) are the rows (0, 2) and (1, 3) of the halves.
  source->add("blk.0.attn_k.weight", {4, 2}, {0, 0, 2, 2, 1, 1, 3, 3});
  source->add("blk.0.attn_q.bias", {8}, {0, 2, 1, 3, 4, 6, 5, 7});
  CheckpointWeights weights(source);
  EXPECT_EQ(weights.get("model.layers.0.self_attn.k_proj.weight").decode(),
            (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(weights.get("model.layers.0.self_attn.q_proj.bias").decode(), counting(8));
}

TEST(CheckpointWeights, MovesWholeRowsOfQuantizedTypes) {
  FakeCheckpoint source("GGUF v3", tiny("llama"));
  const std::size_t row_bytes = bytes_of(DType::Q4_K, 256);
  source->add_bytes("blk.0.attn_k.weight", {4, 256}, DType::Q4_K, 4 * row_bytes);
  CheckpointWeights weights(source);
  const ops::Weight k_proj = weights.get("model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(k_proj.dtype, DType::Q4_K);
  const std::byte* stored = source->tensors()[0].data.data();
  EXPECT_EQ(std::memcmp(k_proj.data + row_bytes, stored + 2 * row_bytes, row_bytes), 0);
  EXPECT_EQ(std::memcmp(k_proj.data + 2 * row_bytes, stored + row_bytes, row_bytes), 0);
}

TEST(CheckpointWeights, ReadsExpertsFromMergedTensors) {
  ModelConfig config = tiny("mixtral");
  config.moe.num_experts = 3;
  FakeCheckpoint source("GGUF v3", config);
  source->add("blk.0.ffn_up_exps.weight", {3, 2, 4}, counting(24));
  CheckpointWeights weights(source);
  const auto up = weights.experts("model.layers.0.block_sparse_moe.experts", "up_proj");
  ASSERT_EQ(up.size(), 3U);
  EXPECT_EQ(up[1].shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(up[1].decode(), counting(8, 8.0F));
  EXPECT_THROW(weights.experts("model.layers.0.block_sparse_moe.experts", "down_proj"), Error);
}

TEST(CheckpointWeights, ReportsMissingExperts) {
  ModelConfig config = tiny("qwen3_moe");
  config.moe.num_experts = 4;
  FakeCheckpoint source("GGUF v3", config);
  source->add("blk.0.ffn_up_exps.weight", {3, 2, 4}, counting(24));
  CheckpointWeights weights(source);
  EXPECT_TRUE(weights.contains("model.layers.0.mlp.experts.2.up_proj.weight"));
  EXPECT_FALSE(weights.contains("model.layers.0.mlp.experts.3.up_proj.weight"));
}

TEST(CheckpointWeights, ReadsExpertsFromFusedTensors) {
  ModelConfig config = tiny("qwen3_moe");
  config.moe.num_experts = 2;
  FakeCheckpoint source("safetensors", config);
  source->add("model.layers.0.mlp.experts.gate_up_proj", {2, 6, 4}, counting(48));
  source->add("model.layers.0.mlp.experts.down_proj", {2, 4, 3}, counting(24));
  CheckpointWeights weights(source);
  const std::string experts = "model.layers.0.mlp.experts";
  EXPECT_EQ(weights.experts(experts, "gate_proj")[1].decode(), counting(12, 24.0F));
  EXPECT_EQ(weights.experts(experts, "up_proj")[1].decode(), counting(12, 36.0F));
  EXPECT_EQ(weights.experts(experts, "down_proj")[1].decode(), counting(12, 12.0F));
}

TEST(CheckpointWeights, JoinsKvBFromItsTwoTensors) {
  ModelConfig config = tiny("deepseek_v3");
  config.mla = {.q_lora_rank = 0,
                .kv_lora_rank = 3,
                .qk_nope_head_dim = 2,
                .qk_rope_head_dim = 2,
                .v_head_dim = 1};
  const std::vector<float> want = counting(18);  // [heads * (nope + v), rank]
  std::vector<float> keys(12);                   // [heads, rank, nope]
  std::vector<float> values(6);                  // [heads, v, rank]
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      for (std::size_t i = 0; i < 2; ++i)
        keys[(head * 3 + rank) * 2 + i] = want[(head * 3 + i) * 3 + rank];
      values[head * 3 + rank] = want[(head * 3 + 2) * 3 + rank];
    }
  }
  FakeCheckpoint source("GGUF v3", config);
  source->add("blk.0.attn_v_b.weight", {2, 1, 3}, values);
  source->add("blk.0.attn_k_b.weight", {2, 3, 2}, keys);
  CheckpointWeights weights(source);
  const ops::Weight joined = weights.get("model.layers.0.self_attn.kv_b_proj.weight");
  EXPECT_EQ(joined.computed_from, DType::F32) << "the type of attn_k_b";
  EXPECT_EQ(joined.shape, (std::vector<std::int64_t>{6, 3}));
  EXPECT_EQ(joined.decode(), want);

  FakeCheckpoint old("GGUF v3", config);
  old->add("blk.0.attn_kv_b.weight", {6, 3}, want);
  const ops::Weight whole = CheckpointWeights(old).get("model.layers.0.self_attn.kv_b_proj.weight");
  EXPECT_EQ(whole.decode(), want);
  EXPECT_FALSE(whole.computed_from);
}

TEST(CheckpointWeights, UsesTheEmbeddingForATiedHead) {
  ModelConfig config = tiny("qwen2");
  config.tie_word_embeddings = true;
  FakeCheckpoint source("GGUF v3", config);
  source->add("token_embd.weight", {8, 4}, counting(32));
  CheckpointWeights weights(source);
  EXPECT_EQ(weights.get("lm_head.weight").data, weights.get("model.embed_tokens.weight").data);
}

TEST(CheckpointWeights, FindsLlavaTextUnderEitherPrefix) {
  FakeCheckpoint source("safetensors", tiny("llava"));
  source->add("language_model.model.norm.weight", {4}, {1, 2, 3, 4});
  source->add("model.language_model.embed_tokens.weight", {8, 4}, counting(32));
  CheckpointWeights weights(source);
  EXPECT_TRUE(weights.contains("model.norm.weight"));
  EXPECT_TRUE(weights.contains("model.embed_tokens.weight"));
}

TEST(CheckpointWeights, LoadsScalesOfFp8Weights) {
  ModelConfig config = tiny("deepseek_v3");
  config.quantization = {.method = "fp8", .weight_block_size = {2, 2}};
  FakeCheckpoint source("safetensors", config);
  source->add_bytes("lm_head.weight", {4, 2}, DType::F8_E4M3, 8);
  source->add("lm_head.weight_scale_inv", {2, 1}, {2.0F, 0.5F});
  CheckpointWeights weights(source);
  const ops::Weight scaled = weights.get("lm_head.weight");
  ASSERT_NE(scaled.scale, nullptr);
  EXPECT_EQ(scaled.scale->values, (std::vector<float>{2.0F, 0.5F}));
  ops::Weight plain = scaled;
  plain.scale = nullptr;
  const std::vector<float> got = scaled.decode();
  const std::vector<float> stored = plain.decode();
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], stored[i] * (i < 4 ? 2.0F : 0.5F)) << i;
  }
}

TEST(CheckpointWeights, SplitsScalesOfFusedFp8Weights) {
  const auto scales_of = [](std::vector<std::int64_t> shape, std::int64_t tile) {
    ModelConfig config = tiny("phi3");
    config.quantization = {.method = "fp8", .weight_block_size = {tile, 4}};
    FakeCheckpoint source("safetensors", config);
    const std::string fused = "model.layers.0.mlp.gate_up_proj.weight";
    std::size_t count = 1;
    for (const std::int64_t size : shape)
      count *= static_cast<std::size_t>(size);
    source->add_bytes(fused, {12, 4}, DType::F8_E4M3, 48);
    source->add(fused + "_scale", std::move(shape), counting(count));
    CheckpointWeights weights(source);
    std::vector<std::vector<float>> scales;
    for (const char* half : {"gate_proj", "up_proj"})
      scales.push_back(weights.get(str("model.layers.0.mlp.", half, ".weight")).scale->values);
    return scales;
  };
  using Halves = std::vector<std::vector<float>>;
  const Halves one = {counting(1), counting(1)};
  EXPECT_EQ(scales_of({}, 2), one);
  EXPECT_EQ(scales_of({1}, 2), one);
  const std::vector<float> rows = counting(12);
  EXPECT_EQ(scales_of({12, 1}, 2),
            Halves({{rows.begin(), rows.begin() + 6}, {rows.begin() + 6, rows.end()}}));
  const std::vector<float> tiles = counting(4);
  EXPECT_EQ(scales_of({4, 1}, 3), Halves({{tiles[0], tiles[1]}, {tiles[2], tiles[3]}}));
  // Rows 4 to 7 are of gate_proj and up_proj.
  EXPECT_THROW(scales_of({3, 1}, 4), Error);
  EXPECT_THROW(scales_of({5, 1}, 3), Error);
}

// A key head has 2 rows each of q and k and 4 each of v and z. Tiles of 2 rows stay whole when rows
// are gathered; of 4 rows only those of v and z.
TEST(CheckpointWeights, GathersScalesOfFusedFp8Weights) {
  for (const std::int64_t tile : {2, 4, 24}) {
    ModelConfig config = tiny("qwen3_next");
    config.delta_net = {.num_key_heads = 2,
                        .num_value_heads = 4,
                        .key_head_dim = 2,
                        .value_head_dim = 2,
                        .layers = {true}};
    config.quantization = {.method = "fp8", .weight_block_size = {tile, 2}};
    FakeCheckpoint source("safetensors", config);
    const std::string layer = "model.layers.0.linear_attn.";
    source->add_bytes(layer + "in_proj_qkvz.weight", {24, 4}, DType::F8_E4M3, 96);
    source->add(layer + "in_proj_qkvz.weight_scale_inv", {24 / tile, 2},
                counting(static_cast<std::size_t>(48 / tile)));
    CheckpointWeights weights(source);
    const std::vector<float> fused = weights.get(layer + "in_proj_qkvz.weight").decode();
    const auto expect_rows = [&](const char* name, const std::vector<std::size_t>& rows,
                                 std::int64_t tile_rows) {
      const ops::Weight weight = weights.get(layer + name);
      ASSERT_NE(weight.scale, nullptr);
      EXPECT_EQ(weight.scale->layout.tile_rows, tile_rows) << name << ", tiles of " << tile;
      const std::vector<float> got = weight.decode();
      ASSERT_EQ(got.size(), rows.size() * 4);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i], fused[rows[i / 4] * 4 + i % 4]) << name << ' ' << i;
    };
    const std::vector<std::size_t> qkv = {0, 1, 12, 13, 2, 3, 14, 15, 4, 5, 6, 7, 16, 17, 18, 19};
    expect_rows("in_proj_qkv.weight", qkv, tile == 4 ? 1 : std::min<std::int64_t>(tile, 16));
    expect_rows("in_proj_z.weight", {8, 9, 10, 11, 20, 21, 22, 23},
                std::min<std::int64_t>(tile, 8));
  }
}

TEST(CheckpointWeights, CheckListsEveryMismatchedWeight) {
  ModelConfig config = tiny("llama");
  config.intermediate_size = 6;
  FakeCheckpoint source("safetensors", config);
  source->add("model.embed_tokens.weight", {8, 5}, counting(40));
  const plan::Blueprint blueprint = make_blueprint(source);
  try {
    CheckpointWeights(source).check(blueprint);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("model.embed_tokens.weight: shape is [8, 5], expected [8, 4]"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("model.layers.0.input_layernorm.weight: missing"), std::string::npos);
    EXPECT_NE(text.find("and 4 more"), std::string::npos) << text;
  }
}

TEST(Blueprint, UsesTheTypesOfMergedGgufTensors) {
  ModelConfig config = tiny("qwen3_moe");
  config.hidden_size = 256;
  config.moe.num_experts = 2;
  config.moe.num_experts_per_tok = 1;
  config.moe.moe_intermediate_size = 2;
  FakeCheckpoint source("GGUF v3", config);
  source->add_bytes("blk.0.ffn_gate_exps.weight", {2, 2, 256}, DType::Q4_K,
                    bytes_of(DType::Q4_K, 1024));
  const plan::Blueprint blueprint = make_blueprint(source);
  const plan::ModuleSpec* experts = blueprint.find("model.layers.0.mlp.experts");
  EXPECT_EQ(experts->weights[0].dtype, DType::Q4_K);
  EXPECT_EQ(experts->weights[3].dtype, DType::Q4_K);
  EXPECT_EQ(experts->weights[0].bytes(), bytes_of(DType::Q4_K, 512));
}

}  // namespace
}  // namespace graft::models
