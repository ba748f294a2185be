#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/models/weights/weight_store.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

using Kind = CompressedConfig::Kind;

ModelConfig v4_config(const std::string& keys = "") {
  const std::string text = str(R"({"model_type": "deepseek_v4")", keys, "}");
  return read_hf_config(parse_json(text, "test"), nullptr, "test");
}

std::string v4_problem(const std::string& keys) {
  try {
    v4_config(keys);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DeepseekV4, HasTheDefaultsOfTransformers) {
  const ModelConfig config = v4_config();
  EXPECT_EQ(config.num_hidden_layers, 43);
  EXPECT_EQ(config.head_dim, 512);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(config.sliding_window, 128);
  EXPECT_EQ(config.local_rope_theta, 10000.0);
  EXPECT_EQ(config.rope.theta, 160000.0);
  EXPECT_EQ(config.indexer, (IndexerConfig{.num_heads = 64, .head_dim = 128, .top_k = 512}));
  EXPECT_EQ(config.hyper, (HyperConfig{.mult = 4, .sinkhorn_iters = 20}));
  EXPECT_EQ(config.compressed.sparse_rate, 4);
  EXPECT_EQ(config.compressed.heavy_rate, 128);
  const std::vector<Kind> first(config.compressed.layers.begin(),
                                config.compressed.layers.begin() + 5);
  EXPECT_EQ(first,
            (std::vector<Kind>{Kind::Heavy, Kind::Heavy, Kind::Heavy, Kind::Sparse, Kind::Heavy}));
  EXPECT_EQ(config.moe.num_experts, 256);
  EXPECT_EQ(config.moe.num_experts_per_tok, 6);
  EXPECT_EQ(config.moe.scoring_func, RouterScoring::SqrtSoftplus);
  EXPECT_EQ(config.moe.num_hash_layers, 3);
  EXPECT_EQ(config.moe.swiglu_limit, 10.0);
}

TEST(DeepseekV4, ReadsTheKeysOfPublishedFiles) {
  const ModelConfig config = v4_config(R"(, "num_hidden_layers": 3, "num_hash_layers": 1,
      "compress_ratios": [0, 4, 128, 0], "num_nextn_predict_layers": 1,
      "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536})");
  EXPECT_EQ(config.compressed.layers, (std::vector<Kind>{Kind::Window, Kind::Sparse, Kind::Heavy}));
  EXPECT_EQ(config.moe.num_hash_layers, 1);
  EXPECT_EQ(config.num_nextn_predict_layers, 0);
  EXPECT_EQ(config.rope.kind, RopeKind::Yarn);
  EXPECT_EQ(config.rope.attention_factor, 1.0);  // no YaRN magnitude
}

TEST(DeepseekV4, ReadsTheParametersOfBothRopes) {
  const ModelConfig config = v4_config(R"(, "rope_parameters": {
      "main": {"rope_type": "default", "rope_theta": 500.0},
      "compress": {"rope_type": "yarn", "rope_theta": 7000.0, "factor": 4.0,
                   "original_max_position_embeddings": 4096}})");
  EXPECT_EQ(config.local_rope_theta, 500.0);
  EXPECT_EQ(config.rope.theta, 7000.0);
  EXPECT_EQ(config.rope.factor, 4.0);
}

TEST(DeepseekV4, WritesItsConfigAsGguf) {
  for (const char* keys :
       {"", R"(, "index_topk": 16, "hc_mult": 2, "swiglu_limit": 7.5, "num_hash_layers": 0)",
        R"(, "compress_rates": {"compressed_sparse_attention": 8,
                                "heavily_compressed_attention": 32})",
        R"(, "rope_scaling": {"type": "yarn", "factor": 16,
                              "original_max_position_embeddings": 65536})"}) {
    const ModelConfig config = v4_config(keys);
    formats::GgufMetadata metadata;
    write_gguf_config(config, metadata);
    EXPECT_EQ(read_gguf_config(metadata, {}, "test"), config) << keys;
  }
}

TEST(DeepseekV4, RejectsWhatItDoesNotSupport) {
  const auto mentions = [](const std::string& keys, const std::string& text) {
    return v4_problem(keys).find(text) != std::string::npos;
  };
  EXPECT_TRUE(mentions(R"(, "num_hidden_layers": 1, "layer_types": ["full_attention"])",
                       "compressed_sparse_attention"));
  EXPECT_TRUE(
      mentions(R"(, "num_hidden_layers": 2, "layer_types": ["sliding_attention"])", "layer_types"));
  EXPECT_TRUE(mentions(R"(, "num_hidden_layers": 2, "mlp_layer_types": ["moe", "hash_moe"])",
                       "mlp_layer_types"));
  EXPECT_TRUE(mentions(R"(, "norm_topk_prob": false)", "norm_topk_prob"));
  EXPECT_TRUE(mentions(R"(, "attention_bias": true)", "attention_bias"));
  EXPECT_TRUE(mentions(R"(, "o_groups": 5)", "o_groups"));
  EXPECT_TRUE(mentions(R"(, "hc_mult": 99)", "hc_mult"));
  EXPECT_TRUE(mentions(R"(, "num_key_value_heads": 8)", "num_key_value_heads"));
}

TEST(DeepseekV4, HasCachesOfEntriesInTheBlueprint) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("deepseek-v4"));
  const plan::Blueprint blueprint = make_blueprint(*checkpoint);
  WeightStore(*checkpoint).check(blueprint);
  const std::string heavy = "model.layers.0.self_attn.compressor";
  EXPECT_EQ(std::get<ops::CompressorParams>(blueprint.find(heavy)->params).rate, 128);
  EXPECT_EQ(blueprint.find(heavy + ".indexer"), nullptr);
  const std::string sparse = "model.layers.3.self_attn.compressor";
  const auto& windows =
      std::get<ops::KvCacheParams>(blueprint.find(sparse + ".window_cache")->params);
  EXPECT_EQ(windows.key_size, 128);
  EXPECT_EQ(windows.value_size, 128);
  const auto& indexer = std::get<ops::IndexerParams>(blueprint.find(sparse + ".indexer")->params);
  EXPECT_EQ(indexer.compress_rate, 4);
  EXPECT_EQ(indexer.top_k, 8);
  EXPECT_EQ(blueprint.find("model.layers.3.ffn_hc")->layer, 3);
  EXPECT_EQ(blueprint.find("model.hc_head")->weights.size(), 3U);
  const auto& router =
      std::get<ops::RouterParams>(blueprint.find("model.layers.2.mlp.gate")->params);
  EXPECT_EQ(router.hash_vocab_size, 320);
}

TEST(DeepseekV4, NamesEveryTensorInGguf) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("deepseek-v4"));
  for (const formats::TensorInfo& tensor : checkpoint->tensors())
    EXPECT_FALSE(to_gguf(checkpoint->config(), tensor.name).empty()) << tensor.name;
  const ModelConfig config = v4_config();
  const auto gguf_name = [&](const char* name) { return to_gguf(config, name).at(0).name; };
  EXPECT_EQ(gguf_name("embed.weight"), "token_embd.weight");
  EXPECT_EQ(gguf_name("hc_head_fn"), "output_hc_fn.weight");
  EXPECT_EQ(gguf_name("layers.3.attn.kv_norm.weight"), "blk.3.attn_kv_a_norm.weight");
  EXPECT_EQ(gguf_name("model.layers.3.self_attn.o_a_proj.weight"), "blk.3.attn_output_a.weight");
  EXPECT_EQ(gguf_name("layers.3.attn.indexer.compressor.ape"),
            "blk.3.indexer_compressor_ape.weight");
  EXPECT_EQ(gguf_name("layers.0.ffn.gate.tid2eid"), "blk.0.ffn_gate_tid2eid.weight");
  EXPECT_EQ(gguf_name("layers.0.ffn.experts.5.w2.weight"), "blk.0.ffn_down_exps.weight");
}

// A block holds the window, the projections of open windows, the entries and the index keys:
// whatever copies, saves or shares it includes them all.
TEST(DeepseekV4, EntriesAreInTheBlocks) {
  OpenModel open(golden_checkpoint("deepseek-v4"));
  open.model().allocate_cache(3);
  constexpr std::size_t kHeavyRow = 64 + 2 * 64 + 64;
  constexpr std::size_t kSparseRow = 64 + 4 * 64 + 64 + 4 * 32 + 32;
  EXPECT_EQ(
      open.model().cache_bytes_per_block(),
      static_cast<std::size_t>(open.model().block_tokens()) * 2 * (3 * kHeavyRow + kSparseRow));
}

}  // namespace
}  // namespace graft::models
