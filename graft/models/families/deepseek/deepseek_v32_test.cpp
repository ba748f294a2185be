#include <cstddef>
#include <cstdint>
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
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

ModelConfig sparse_config(const std::string& type, const std::string& keys = "") {
  const std::string text = str(R"({"model_type": ")", type, R"(")", keys, "}");
  return read_hf_config(parse_json(text, "test"), nullptr, "test");
}

std::string sparse_problem(const std::string& type, const std::string& keys) {
  try {
    sparse_config(type, keys);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DeepseekV32, HasTheDefaultsOfTransformers) {
  const ModelConfig config = sparse_config("deepseek_v32");
  EXPECT_EQ(config.max_position_embeddings, 163840);
  EXPECT_EQ(config.indexer, (IndexerConfig{.num_heads = 64, .head_dim = 128, .top_k = 2048}));
  EXPECT_EQ(config.moe.first_k_dense_replace, 3);
  EXPECT_EQ(config.head_dim, 192);
  const ModelConfig glm = sparse_config("glm_moe_dsa");
  EXPECT_EQ(
      glm.indexer,
      (IndexerConfig{.num_heads = 32, .head_dim = 128, .top_k = 2048, .rope_interleaved = true}));
  EXPECT_EQ(glm.head_dim, 256);
  EXPECT_EQ(glm.mla.v_head_dim, 256);
  EXPECT_EQ(glm.mla.q_lora_rank, 2048);
}

TEST(DeepseekV32, WritesItsConfigAsGguf) {
  for (const char* type : {"deepseek_v32", "glm_moe_dsa"}) {
    for (const char* keys : {"", R"(, "index_topk": 16, "index_n_heads": 4, "index_head_dim": 96)",
                             R"(, "num_nextn_predict_layers": 1)"}) {
      const ModelConfig config = sparse_config(type, keys);
      formats::GgufMetadata metadata;
      write_gguf_config(config, metadata);
      EXPECT_EQ(read_gguf_config(metadata, {}, "test"), config) << type << keys;
    }
  }
}

TEST(DeepseekV32, RejectsWhatItDoesNotSupport) {
  EXPECT_NE(sparse_problem("deepseek_v32", R"(, "num_hidden_layers": 2,
                                               "indexer_types": ["full", "shared"])")
                .find("full in every layer"),
            std::string::npos);
  for (const char* keys : {R"(, "num_hidden_layers": 2, "indexer_types": ["shared", "full"])",
                           R"(, "num_hidden_layers": 3, "indexer_types": ["full", "shared"])",
                           R"(, "num_hidden_layers": 2, "indexer_types": ["full", "other"])",
                           R"(, "num_hidden_layers": 2, "index_topk_pattern": "FX")",
                           R"(, "index_topk_freq": 4, "index_skip_topk_offset": 0)"}) {
    EXPECT_NE(sparse_problem("glm_moe_dsa", keys).find("full"), std::string::npos) << keys;
  }
  EXPECT_NE(sparse_problem("deepseek_v32", R"(, "layer_types": ["full_attention"])")
                .find("deepseek_sparse_attention"),
            std::string::npos);
  EXPECT_NE(sparse_problem("deepseek_v32", R"(, "num_hidden_layers": 2,
                                               "mlp_layer_types": ["sparse", "dense"])")
                .find("mlp_layer_types"),
            std::string::npos);
  EXPECT_NE(sparse_problem("deepseek_v32", R"(, "index_head_dim": 32)").find("index_head_dim"),
            std::string::npos);
  EXPECT_NE(sparse_problem("deepseek_v32", R"(, "index_topk": 0)").find("index_topk"),
            std::string::npos);
}

// The layers of GLM-5.2: 0 to 2, then every fourth.
TEST(DeepseekV32, SharesIndexersBetweenLayers) {
  std::vector<bool> want(78, false);
  want[0] = want[1] = true;
  for (std::size_t layer = 2; layer < want.size(); layer += 4)
    want[layer] = true;
  const ModelConfig config =
      sparse_config("glm_moe_dsa", R"(, "index_topk_freq": 4, "index_skip_topk_offset": 3)");
  EXPECT_EQ(config.indexer.layers, want);
  EXPECT_FALSE(config.layer_has_indexer(3));
  EXPECT_TRUE(config.layer_has_indexer(78));  // the layer that predicts further tokens
  const std::string four = R"(, "num_hidden_layers": 4, )";
  for (const char* keys :
       {R"("index_topk_pattern": "FSSF")",
        R"("index_topk_pattern": ["full", "shared", "shared", "full"])",
        R"("indexer_types": ["full", "shared", "shared", "full"], "index_topk_freq": 2)"}) {
    EXPECT_EQ(sparse_config("glm_moe_dsa", four + keys).indexer.layers,
              (std::vector<bool>{true, false, false, true}))
        << keys;
  }
  EXPECT_TRUE(sparse_config("glm_moe_dsa", four + R"("indexer_types": ["full", "full", "full",
                                                     "full"])")
                  .indexer.layers.empty());
}

TEST(DeepseekV32, WritesSharedIndexersAsGguf) {
  const ModelConfig config =
      sparse_config("glm_moe_dsa", R"(, "num_hidden_layers": 4, "index_topk_pattern": "FSSF")");
  formats::GgufMetadata metadata;
  write_gguf_config(config, metadata);
  const std::string key = "glm-dsa.attention.indexer.types";
  const formats::GgufArray* types = metadata.array(key);
  ASSERT_NE(types, nullptr);
  EXPECT_EQ(types->type, formats::GgufType::Bool);
  EXPECT_EQ(types->count, 4U);
  EXPECT_EQ(read_gguf_config(metadata, {}, "test"), config);
  metadata.set(key, formats::GgufArray::of(std::vector<std::int32_t>{1, 0, 0, 1}));
  EXPECT_EQ(read_gguf_config(metadata, {}, "test").indexer, config.indexer);
  // A file without the key: the layers that have the tensors.
  metadata.erase(key);
  std::vector<formats::TensorInfo> tensors(2);
  tensors[0].name = "blk.0.indexer.attn_k.weight";
  tensors[1].name = "blk.3.indexer.attn_k.weight";
  EXPECT_EQ(read_gguf_config(metadata, tensors, "test").indexer, config.indexer);
}

TEST(DeepseekV32, SharedLayersHaveNoIndexer) {
  const auto checkpoint = open_checkpoint(golden_checkpoint("glm5-shared"));
  const plan::Blueprint blueprint = make_blueprint(*checkpoint);
  WeightStore(*checkpoint).check(blueprint);
  for (const int layer : {0, 1, 2, 3}) {
    const std::string attention = str("model.layers.", layer, ".self_attn");
    EXPECT_EQ(blueprint.find(attention + ".indexer") != nullptr, layer % 2 == 0) << layer;
    EXPECT_EQ(std::get<ops::MlaParams>(blueprint.find(attention)->params).index_top_k, 16);
  }
}

TEST(DeepseekV32, HasAnIndexerWithACacheInEveryLayer) {
  for (const char* name : {"deepseek-v3.2", "glm5"}) {
    const auto checkpoint = open_checkpoint(golden_checkpoint(name));
    const plan::Blueprint blueprint = make_blueprint(*checkpoint);
    WeightStore(*checkpoint).check(blueprint);
    for (const char* layer : {"0", "2"}) {
      const std::string attention = str("model.layers.", layer, ".self_attn");
      const plan::ModuleSpec* indexer = blueprint.find(attention + ".indexer");
      ASSERT_NE(indexer, nullptr);
      EXPECT_EQ(indexer->role, ops::Role::Indexer);
      EXPECT_EQ(std::get<ops::IndexerParams>(indexer->params).top_k, 16);
      const plan::ModuleSpec* cache = blueprint.find(attention + ".indexer.kv_cache");
      ASSERT_NE(cache, nullptr);
      EXPECT_EQ(std::get<ops::KvCacheParams>(cache->params).key_size, 32);
      const plan::ModuleSpec* rope = blueprint.find(attention + ".indexer.rotary_emb");
      ASSERT_NE(rope, nullptr);
      EXPECT_EQ(std::get<ops::RopeParams>(rope->params).interleaved, name == std::string("glm5"));
      const plan::ModuleSpec* own = blueprint.find(attention + ".rotary_emb");
      EXPECT_TRUE(std::get<ops::RopeParams>(own->params).interleaved);
    }
  }
}

TEST(DeepseekV32, NamesEveryTensorInGguf) {
  for (const char* name : {"deepseek-v3.2", "glm5"}) {
    const auto checkpoint = open_checkpoint(golden_checkpoint(name));
    for (const formats::TensorInfo& tensor : checkpoint->tensors())
      EXPECT_FALSE(to_gguf(checkpoint->config(), tensor.name).empty()) << tensor.name;
  }
  const ModelConfig config = sparse_config("deepseek_v32");
  const std::string indexer = "model.layers.3.self_attn.indexer.";
  EXPECT_EQ(to_gguf(config, indexer + "wq_b.weight").at(0).name, "blk.3.indexer.attn_q_b.weight");
  EXPECT_EQ(to_gguf(config, indexer + "wk.weight").at(0).name, "blk.3.indexer.attn_k.weight");
  EXPECT_EQ(to_gguf(config, indexer + "k_norm.bias").at(0).name, "blk.3.indexer.k_norm.bias");
  EXPECT_EQ(to_gguf(config, indexer + "weights_proj.weight").at(0).name,
            "blk.3.indexer.proj.weight");
}

}  // namespace
}  // namespace graft::models
