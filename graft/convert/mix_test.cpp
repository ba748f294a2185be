#include "graft/convert/mix.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::convert {
namespace {

models::ModelConfig llama(std::int64_t num_layers) {
  models::ModelConfig config;
  config.num_hidden_layers = num_layers;
  config.num_attention_heads = 32;
  config.num_key_value_heads = 8;
  return config;
}

DType type_in(const char* mix,
              const models::ModelConfig& config,
              const char* name,
              std::int64_t row_elems = 4096) {
  return choose_type(find_mix(mix), config, {.name = name, .shape = {64, row_elems}}).type;
}

TEST(Mix, FindsNamesCaseInsensitively) {
  EXPECT_EQ(find_mix("q4_k_m").name, "Q4_K_M");
  EXPECT_EQ(find_mix("Q4_K").name, "Q4_K_M");
  try {
    find_mix("Q4_K_XXL");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"Q4_K_XXL\": unknown, expected one of F32, BF16"),
              std::string::npos);
  }
}

TEST(Mix, Q4KMGivesMoreBitsToTheSameLayersAsLlamaCpp) {
  const models::ModelConfig config = llama(32);
  // Of 32 layers: 0-3, 28-31 and every third from 6 on.
  for (std::int64_t layer = 0; layer < 32; ++layer) {
    const bool more = layer < 4 || layer >= 28 || (layer - 4) % 3 == 2;
    const std::string name = "blk." + std::to_string(layer) + ".ffn_down.weight";
    EXPECT_EQ(type_in("Q4_K_M", config, name.c_str()), more ? DType::Q6_K : DType::Q4_K) << layer;
  }
  EXPECT_EQ(type_in("Q4_K_M", config, "blk.10.ffn_up.weight"), DType::Q4_K);
  EXPECT_EQ(type_in("Q4_K_M", config, "token_embd.weight"), DType::Q4_K);
  EXPECT_EQ(type_in("Q4_K_M", config, "output.weight"), DType::Q6_K);
}

TEST(Mix, TiedEmbeddingsGetTheTypeOfTheHead) {
  models::ModelConfig config = llama(4);
  config.tie_word_embeddings = true;
  EXPECT_EQ(type_in("Q4_K_M", config, "token_embd.weight"), DType::Q6_K);
  EXPECT_EQ(type_in("Q8_0", config, "token_embd.weight"), DType::Q8_0);
}

TEST(Mix, EightExpertModelsGetMoreBitsForAttention) {
  models::ModelConfig config = llama(32);
  config.moe.num_experts = 8;
  EXPECT_EQ(type_in("Q4_K_M", config, "blk.9.attn_v.weight"), DType::Q8_0);
  EXPECT_EQ(type_in("Q4_K_M", config, "blk.9.attn_k.weight"), DType::Q8_0);
  EXPECT_EQ(type_in("Q4_K_M", config, "blk.9.attn_output.weight"), DType::Q5_K);
}

TEST(Mix, RowsThatDoNotFillABlockFallBack) {
  const models::ModelConfig config = llama(4);
  EXPECT_EQ(type_in("Q4_K_M", config, "blk.1.attn_q.weight", 96), DType::Q5_0);
  EXPECT_EQ(type_in("Q6_K", config, "blk.1.attn_q.weight", 96), DType::Q8_0);
  EXPECT_EQ(type_in("IQ4_XS", config, "blk.1.attn_q.weight", 96), DType::IQ4_NL);
  EXPECT_EQ(type_in("Q4_K_M", config, "blk.1.attn_q.weight", 80), DType::F16);
  const TypeChoice choice =
      choose_type(find_mix("Q4_K_M"), config, {.name = "blk.1.attn_q.weight", .shape = {8, 96}});
  EXPECT_EQ(choice.wanted, DType::Q4_K);
}

TEST(Mix, Mxfp4AppliesToExpertsOnly) {
  const models::ModelConfig config = llama(4);
  EXPECT_EQ(type_in("MXFP4", config, "blk.1.ffn_up_exps.weight"), DType::MXFP4);
  EXPECT_EQ(type_in("MXFP4", config, "blk.1.attn_q.weight"), DType::Q8_0);
}

TEST(Mix, NormsBiasesAndRoutersAreNotQuantized) {
  EXPECT_TRUE(is_quantizable({.name = "blk.0.attn_q.weight", .shape = {8, 8}}));
  EXPECT_FALSE(is_quantizable({.name = "blk.0.attn_norm.weight", .shape = {8}}));
  EXPECT_FALSE(is_quantizable({.name = "blk.0.attn_q.bias", .shape = {8}}));
  EXPECT_FALSE(is_quantizable({.name = "blk.0.ffn_gate_inp.weight", .shape = {8, 8}}));
  EXPECT_FALSE(is_quantizable({.name = "blk.0.indexer.proj.weight", .shape = {8, 8}}));
}

}  // namespace
}  // namespace graft::convert
