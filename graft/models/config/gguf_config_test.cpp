#include "graft/models/config/gguf_config.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/testing/config_folder.h"
#include "graft/testing/shared_data.h"

namespace graft::models {
namespace {

using formats::GgufArray;
using formats::GgufMetadata;
using formats::TensorInfo;

TensorInfo tensor(const std::string& name) {
  TensorInfo info;
  info.name = name;
  return info;
}

// The tensors from which the reader infers values without a metadata key.
std::vector<TensorInfo> inferred_from(const ModelConfig& config) {
  std::vector<TensorInfo> tensors = {tensor("token_embd.weight")};
  if (!config.tie_word_embeddings) tensors.push_back(tensor("output.weight"));
  if (config.attention_bias) tensors.push_back(tensor("blk.0.attn_q.bias"));
  if (config.attention_output_bias) tensors.push_back(tensor("blk.0.attn_output.bias"));
  if (config.qk_norm) tensors.push_back(tensor("blk.0.attn_q_norm.weight"));
  if (config.moe.shared_expert_gate) tensors.push_back(tensor("blk.1.ffn_gate_inp_shexp.weight"));
  if (config.rope.kind == RopeKind::Llama3) tensors.push_back(tensor("rope_freqs.weight"));
  return tensors;
}

// Clears the values that GGUF does not store (listed in gguf_config.h).
ModelConfig without_unstored(ModelConfig config) {
  config.torch_dtype.clear();
  config.quantization = {};
  config.vision.reset();
  // GGUF files of Qwen3.5 have another order of the heads.
  if (config.family == find_family("qwen3_5_moe_text")) config.delta_net.tiled_value_heads = true;
  if (config.family == find_family("llava") || config.family == find_family("llava_next"))
    config.family = find_family("llama");
  return config;
}

void expect_round_trip(const ModelConfig& config) {
  GgufMetadata metadata;
  write_gguf_config(config, metadata);
  const ModelConfig got = read_gguf_config(metadata, inferred_from(config), "test");
  EXPECT_EQ(got, without_unstored(config));
}

TEST(GgufConfig, RoundTripsEveryCheckpoint) {
  std::vector<std::filesystem::path> folders = {test_data("sprout")};
  for (const auto& parent : {test_data("golden"), test_data("configs")}) {
    for (const auto& entry : std::filesystem::directory_iterator(parent)) {
      if (entry.is_directory()) folders.push_back(entry.path());
    }
  }
  EXPECT_GE(folders.size(), 25U);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder);
    expect_round_trip(read_config_folder(folder));
  }
}

ModelConfig from_text(const std::string& text) {
  return read_hf_config(parse_json(text, "test"), nullptr, "test");
}

TEST(GgufConfig, RoundTripsValuesWithoutALlamaCppKey) {
  expect_round_trip(from_text(R"({"model_type": "mistral", "sliding_window": 4096})"));
  expect_round_trip(from_text(R"({"model_type": "mistral", "sliding_window": null})"));
  expect_round_trip(from_text(R"({"model_type": "qwen2", "use_sliding_window": true,
      "sliding_window": 512, "max_window_layers": 7})"));
  expect_round_trip(from_text(R"({"model_type": "qwen3_moe", "norm_topk_prob": false,
      "decoder_sparse_step": 2, "mlp_only_layers": [3, 5], "hidden_act": "gelu"})"));
  expect_round_trip(from_text(R"({"model_type": "llama", "rope_scaling":
      {"type": "dynamic", "factor": 2.5}})"));
  expect_round_trip(from_text(R"({"model_type": "llama", "rope_scaling":
      {"type": "linear", "factor": 3}})"));
  expect_round_trip(from_text(R"({"model_type": "qwen3", "rope_scaling": {"type": "yarn",
      "factor": 4, "attention_factor": 1.1, "original_max_position_embeddings": 8192}})"));
  expect_round_trip(from_text(R"({"model_type": "deepseek_v3", "rope_interleave": false,
      "n_group": 4, "topk_group": 4, "rope_scaling": {"type": "yarn", "factor": 40,
      "mscale": 1.0, "mscale_all_dim": 0.8}, "max_position_embeddings": 163840})"));
  expect_round_trip(from_text(R"({"model_type": "deepseek_v2", "n_routed_experts": null})"));
}

TEST(GgufConfig, WritesTheKeysOfLlamaCpp) {
  const auto path = test_data("configs/DeepSeek-V3");
  GgufMetadata metadata;
  write_gguf_config(read_config_folder(path), metadata);
  EXPECT_EQ(metadata.string("general.architecture"), "deepseek2");
  const auto integer = [&](const std::string& key) { return metadata.integer("deepseek2." + key); };
  EXPECT_EQ(integer("block_count"), 62);
  EXPECT_EQ(integer("nextn_predict_layers"), 1);
  EXPECT_EQ(integer("attention.head_count"), 128);
  EXPECT_EQ(integer("attention.head_count_kv"), 1);
  EXPECT_EQ(integer("attention.key_length"), 512 + 64);
  EXPECT_EQ(integer("attention.value_length"), 512);
  EXPECT_EQ(integer("attention.key_length_mla"), 192);
  EXPECT_EQ(integer("attention.value_length_mla"), 128);
  EXPECT_EQ(integer("attention.q_lora_rank"), 1536);
  EXPECT_EQ(integer("attention.kv_lora_rank"), 512);
  EXPECT_EQ(integer("rope.dimension_count"), 64);
  EXPECT_EQ(integer("leading_dense_block_count"), 3);
  EXPECT_EQ(integer("expert_count"), 256);
  EXPECT_EQ(integer("expert_used_count"), 8);
  EXPECT_EQ(integer("expert_shared_count"), 1);
  EXPECT_EQ(integer("expert_feed_forward_length"), 2048);
  EXPECT_EQ(integer("expert_gating_func"), 2);
  EXPECT_EQ(integer("expert_group_count"), 8);
  EXPECT_EQ(integer("expert_group_used_count"), 4);
  EXPECT_EQ(metadata.boolean("deepseek2.expert_weights_norm"), true);
  EXPECT_EQ(metadata.number("deepseek2.expert_weights_scale"), 2.5);
  EXPECT_EQ(metadata.string("deepseek2.rope.scaling.type"), "yarn");
  EXPECT_FLOAT_EQ(
      static_cast<float>(*metadata.number("deepseek2.rope.scaling.yarn_log_multiplier")), 0.1F);
  EXPECT_TRUE(std::holds_alternative<std::uint32_t>(*metadata.find("deepseek2.block_count")));
  EXPECT_TRUE(std::holds_alternative<float>(*metadata.find("deepseek2.rope.freq_base")));
}

// Metadata as llama.cpp's converter writes it, without graft.* keys.
GgufMetadata foreign(const std::string& arch) {
  GgufMetadata metadata;
  metadata.set("general.architecture", arch);
  const auto integer = [&](const std::string& key, std::uint32_t value) {
    metadata.set(arch + "." + key, value);
  };
  integer("context_length", 4096);
  integer("embedding_length", 2048);
  integer("block_count", 27);
  integer("feed_forward_length", 10944);
  integer("attention.head_count", 16);
  integer("vocab_size", 102400);
  metadata.set(arch + ".attention.layer_norm_rms_epsilon", 1e-6F);
  return metadata;
}

TEST(GgufConfig, ReadsOldDeepseekFilesWithUnsplitKvB) {
  GgufMetadata metadata = foreign("deepseek2");
  const auto integer = [&](const std::string& key, std::uint32_t value) {
    metadata.set("deepseek2." + key, value);
  };
  integer("attention.head_count_kv", 16);
  integer("attention.kv_lora_rank", 512);
  integer("attention.key_length", 192);
  integer("attention.value_length", 128);
  integer("rope.dimension_count", 64);
  integer("leading_dense_block_count", 1);
  integer("expert_count", 64);
  integer("expert_used_count", 6);
  integer("expert_shared_count", 2);
  integer("expert_feed_forward_length", 1408);
  metadata.set("deepseek2.rope.scaling.type", std::string("yarn"));
  metadata.set("deepseek2.rope.scaling.factor", 40.0F);
  metadata.set("deepseek2.rope.scaling.original_context_length", std::uint32_t{4096});
  metadata.set("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F);
  const ModelConfig got = read_gguf_config(metadata, {}, "test");
  EXPECT_EQ(got.family->model_type(), "deepseek_v2");
  EXPECT_EQ(got.mla.q_lora_rank, 0);
  EXPECT_EQ(got.mla.qk_nope_head_dim, 128);
  EXPECT_EQ(got.mla.v_head_dim, 128);
  EXPECT_EQ(got.head_dim, 192);
  EXPECT_EQ(got.num_key_value_heads, 16);
  EXPECT_EQ(got.moe.shared_expert_intermediate_size, 2816);
  EXPECT_EQ(got.moe.topk_method, RouterMethod::Greedy);
  EXPECT_EQ(got.rms_norm_eps, 1e-6);
  EXPECT_EQ(got.rope.mscale_all_dim, 0.707);
  EXPECT_EQ(got.rope.mscale, 0.707);
  EXPECT_TRUE(got.rope_interleaved);

  // Only DeepSeek-V3 has the router bias exp_probs_b.
  const std::vector<TensorInfo> tensors = {tensor("blk.1.exp_probs_b.bias")};
  EXPECT_EQ(read_gguf_config(metadata, tensors, "test").family->model_type(), "deepseek_v3");
  metadata.set("tokenizer.ggml.pre", std::string("kimi-k2"));
  EXPECT_EQ(read_gguf_config(metadata, tensors, "test").family->model_type(), "kimi_k2");
}

TEST(GgufConfig, DistinguishesTheFamiliesOfArchitectureLlama) {
  GgufMetadata metadata = foreign("llama");
  EXPECT_EQ(read_gguf_config(metadata, {}, "test").family->model_type(), "llama");
  const std::vector<TensorInfo> tensors = {tensor("rope_freqs.weight"), tensor("output.weight")};
  const ModelConfig scaled = read_gguf_config(metadata, tensors, "test");
  EXPECT_TRUE(scaled.rope.has_freq_factors);
  EXPECT_EQ(scaled.rope.kind, RopeKind::Default);
  metadata.set("llama.expert_count", std::uint32_t{8});
  metadata.set("llama.expert_used_count", std::uint32_t{2});
  const ModelConfig mixtral = read_gguf_config(metadata, {}, "test");
  EXPECT_EQ(mixtral.family->model_type(), "mixtral");
  EXPECT_EQ(mixtral.moe.moe_intermediate_size, 10944);
  EXPECT_TRUE(mixtral.moe.norm_topk_prob);
}

std::string metadata_error(const GgufMetadata& metadata) {
  try {
    read_gguf_config(metadata, {}, "a.gguf");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GgufConfig, NamesTheWrongKey) {
  EXPECT_EQ(metadata_error({}), "a.gguf: metadata key \"general.architecture\" is missing");
  EXPECT_EQ(metadata_error(foreign("gpt2")).find("a.gguf: \"general.architecture\" is \"gpt2\""),
            0);
  GgufMetadata metadata = foreign("llama");
  metadata.set("llama.block_count", std::string("many"));
  EXPECT_NE(metadata_error(metadata).find("llama.block_count"), std::string::npos);
  metadata.set("llama.block_count", std::uint32_t{0});
  EXPECT_NE(metadata_error(metadata).find("num_hidden_layers"), std::string::npos);
  metadata.erase("llama.block_count");
  EXPECT_EQ(metadata_error(metadata), "a.gguf: metadata key \"llama.block_count\" is missing");
  metadata = foreign("qwen2");
  metadata.set("qwen2.attention.head_count", GgufArray::of(std::vector<std::int32_t>{16, 8}));
  EXPECT_NE(metadata_error(metadata).find("layer to layer"), std::string::npos);
}

TEST(GgufConfig, ComputesLlama3Divisors) {
  const auto path = test_data("configs/Llama-3.1-8B");
  const ModelConfig config = read_config_folder(path);
  const std::vector<float> divisors = rope_freqs(config);
  ASSERT_EQ(divisors.size(), 64U);
  EXPECT_EQ(divisors.front(), 1.0F);
  EXPECT_EQ(divisors.back(), 8.0F);
  for (std::size_t i = 1; i < divisors.size(); ++i) {
    EXPECT_GE(divisors[i], divisors[i - 1]) << i;
  }
  // Computed by hand for pair 30: wavelength 2 pi 500000^(60/128) = 2948.6, 2.778 turns in 8192.
  EXPECT_NEAR(divisors[30], 1.553, 0.005);
  EXPECT_TRUE(rope_freqs(ModelConfig()).empty());
}

}  // namespace
}  // namespace graft::models
