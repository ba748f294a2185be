#include "graft/models/families/tensor_names.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/formats/weight_source.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/families/family.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

using formats::TensorTransform;
using Names = std::vector<MappedName>;

ModelConfig config_of(const std::string& text) {
  return read_hf_config(parse_json(text, "test"), nullptr, "test");
}

bool contains(const Names& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const MappedName& mapped) { return mapped.name == name; });
}

// GGUF files of ours have neither images nor the scales of FP8, which conversion multiplies in, nor
// those of MXFP4, which are part of its blocks.
bool is_left_out(std::string_view name) {
  return name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.") ||
         name == "image_newline" || name.ends_with(".weight_scale_inv") ||
         name.ends_with("_proj_scales");
}

TEST(Names, CoverEveryTensorOfEveryCheckpoint) {
  std::vector<std::filesystem::path> folders = golden_checkpoints();
  folders.push_back(sprout_checkpoint());
  EXPECT_GE(folders.size(), 15U);
  for (const auto& folder : folders) {
    const ModelConfig config =
        read_hf_config(read_json_file(folder / "config.json"), nullptr, folder);
    const auto weights = formats::open_weights(folder);
    for (const formats::TensorInfo& tensor : weights->tensors()) {
      const Names names = to_gguf(config, tensor.name);
      EXPECT_EQ(names.empty(), is_left_out(tensor.name)) << folder << ' ' << tensor.name;
      const auto module_name = config.family->module_name;
      const std::string weight = module_name == nullptr ? tensor.name : module_name(tensor.name);
      for (const MappedName& mapped : names) {
        EXPECT_TRUE(contains(to_huggingface(config, mapped.name), weight))
            << folder << ' ' << tensor.name << " -> " << mapped.name;
      }
    }
  }
}

TEST(Names, PermuteOnlyWhereLlamaCppDoes) {
  const ModelConfig llama = config_of(R"({"model_type": "llama", "num_key_value_heads": 8})");
  EXPECT_EQ(to_gguf(llama, "model.layers.3.self_attn.q_proj.weight"),
            (Names{{.name = "blk.3.attn_q.weight",
                    .transform = TensorTransform::RopePairs,
                    .num_heads = 32}}));
  EXPECT_EQ(
      to_gguf(llama, "model.layers.3.self_attn.k_proj.bias"),
      (Names{
          {.name = "blk.3.attn_k.bias", .transform = TensorTransform::RopePairs, .num_heads = 8}}));
  EXPECT_EQ(to_gguf(llama, "model.layers.3.self_attn.v_proj.weight"),
            (Names{{.name = "blk.3.attn_v.weight"}}));
  const ModelConfig qwen = config_of(R"({"model_type": "qwen3"})");
  EXPECT_EQ(to_gguf(qwen, "model.layers.3.self_attn.q_proj.weight"),
            (Names{{.name = "blk.3.attn_q.weight"}}));
}

TEST(Names, SplitAndMerge) {
  const ModelConfig config = config_of(R"({"model_type": "deepseek_v3", "n_routed_experts": 16,
      "n_group": 4, "topk_group": 2, "num_nextn_predict_layers": 1})");
  const std::string kv_b = "model.layers.2.self_attn.kv_b_proj.weight";
  EXPECT_EQ(to_gguf(config, kv_b),
            (Names{{.name = "blk.2.attn_k_b.weight", .transform = TensorTransform::KvBKey},
                   {.name = "blk.2.attn_v_b.weight", .transform = TensorTransform::KvBValue}}));
  EXPECT_EQ(to_huggingface(config, "blk.2.attn_kv_b.weight"), (Names{{.name = kv_b}}));

  EXPECT_EQ(to_gguf(config, "model.layers.4.mlp.experts.15.up_proj.weight"),
            (Names{{.name = "blk.4.ffn_up_exps.weight",
                    .transform = TensorTransform::Expert,
                    .expert = 15}}));
  const Names experts = to_huggingface(config, "blk.4.ffn_up_exps.weight");
  ASSERT_EQ(experts.size(), 17U);
  EXPECT_EQ(experts[15].name, "model.layers.4.mlp.experts.15.up_proj.weight");
  EXPECT_EQ(experts[15].expert, 15);
  EXPECT_EQ(experts[16], (MappedName{.name = "model.layers.4.mlp.experts.gate_up_proj",
                                     .transform = TensorTransform::SecondHalf}));
  EXPECT_EQ(
      to_gguf(config, "model.layers.4.mlp.experts.gate_up_proj"),
      (Names{{.name = "blk.4.ffn_gate_exps.weight", .transform = TensorTransform::FirstHalf},
             {.name = "blk.4.ffn_up_exps.weight", .transform = TensorTransform::SecondHalf}}));
  EXPECT_EQ(to_gguf(config, "model.layers.4.mlp.experts.down_proj"),
            (Names{{.name = "blk.4.ffn_down_exps.weight"}}));
  EXPECT_EQ(to_gguf(config, "model.layers.61.shared_head.norm.weight"),
            (Names{{.name = "blk.61.nextn.shared_head_norm.weight"}}));
}

TEST(Names, ReadOldMixtralFiles) {
  const ModelConfig config = config_of(R"({"model_type": "mixtral"})");
  EXPECT_EQ(to_huggingface(config, "blk.1.ffn_down.7.weight"),
            (Names{{.name = "model.layers.1.block_sparse_moe.experts.7.w2.weight"}}));
  EXPECT_TRUE(to_huggingface(config, "blk.1.ffn_down.8.weight").empty());
}

TEST(Names, HaveBothPrefixesOfLlava) {
  const ModelConfig config = config_of(R"({"model_type": "llava"})");
  EXPECT_EQ(to_gguf(config, "language_model.model.norm.weight"),
            (Names{{.name = "output_norm.weight"}}));
  EXPECT_EQ(to_gguf(config, "model.language_model.norm.weight"),
            (Names{{.name = "output_norm.weight"}}));
  EXPECT_EQ(to_gguf(config, "lm_head.weight"), (Names{{.name = "output.weight"}}));
  EXPECT_EQ(to_huggingface(config, "output.weight"),
            (Names{{.name = "language_model.lm_head.weight"}, {.name = "lm_head.weight"}}));
  EXPECT_EQ(to_huggingface(config, "token_embd.weight"),
            (Names{{.name = "language_model.model.embed_tokens.weight"},
                   {.name = "model.language_model.embed_tokens.weight"}}));
}

TEST(Names, OmitTensorsThatGgufDoesNotStore) {
  const ModelConfig tied = config_of(R"({"model_type": "llama", "tie_word_embeddings": true})");
  for (const std::string_view name :
       {"lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.32.x",
        "model.layers.32.input_layernorm.weight", "model.layers.00.input_layernorm.weight",
        "model.layers..input_layernorm.weight", "model.layers.0.mlp.gate_proj.weight_scale_inv",
        "model.layers.99999999999999999999.input_layernorm.weight", ""}) {
    EXPECT_TRUE(to_gguf(tied, name).empty()) << name;
  }
  for (const std::string_view name : {"rope_freqs.weight", "blk.0.unknown.weight", "blk."}) {
    EXPECT_TRUE(to_huggingface(tied, name).empty()) << name;
  }
}

}  // namespace
}  // namespace graft::models
