#include "graft/models/shapes.h"

#include <array>
#include <filesystem>

#include "graft/base/error.h"
#include "graft/models/config/hf_config.h"

namespace graft::models {
namespace {

constexpr std::array kShapes = {
    Shape{"llama-1b", "Llama-3.2-1B", R"({"model_type": "llama", "hidden_size": 2048,
      "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "rope_theta": 500000.0,
      "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "tie_word_embeddings": true})"},
    Shape{"llama-8b", "Llama-3.1-8B", R"({"model_type": "llama", "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "vocab_size": 128256, "rope_theta": 500000.0,
      "rms_norm_eps": 1e-5, "max_position_embeddings": 131072})"},
    Shape{"qwen3-0.6b", "Qwen3-0.6B", R"({"model_type": "qwen3", "hidden_size": 1024,
      "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "rope_theta": 1000000.0,
      "rms_norm_eps": 1e-6, "max_position_embeddings": 40960, "tie_word_embeddings": true})"},
    Shape{"qwen3-30b", "Qwen3-30B-A3B", R"({"model_type": "qwen3_moe", "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
      "vocab_size": 151936, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
      "max_position_embeddings": 40960})"},
    Shape{"dsv2-lite", "DeepSeek-V2-Lite", R"({"model_type": "deepseek_v2", "hidden_size": 2048,
      "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
      "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
      "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
      "scoring_func": "softmax", "norm_topk_prob": false, "routed_scaling_factor": 1.0,
      "vocab_size": 102400, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
      "max_position_embeddings": 163840})"},
    Shape{"dsv3", "DeepSeek-V3", R"({"model_type": "deepseek_v3", "hidden_size": 7168,
      "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
      "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
      "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
      "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc",
      "scoring_func": "sigmoid", "norm_topk_prob": true, "routed_scaling_factor": 2.5,
      "vocab_size": 129280, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
      "max_position_embeddings": 163840})"},
};

}  // namespace

std::span<const Shape> shapes() {
  return kShapes;
}

ModelConfig shape_config(const std::string& name_or_path) {
  std::string known;
  for (const Shape& shape : kShapes) {
    if (shape.name == name_or_path) {
      ModelConfig config =
          read_hf_config(parse_json(shape.config, name_or_path), nullptr, name_or_path);
      config.name = name_or_path;
      return config;
    }
    known += str(known.empty() ? "" : ", ", shape.name);
  }
  if (!std::filesystem::exists(name_or_path)) {
    fail("\"", name_or_path, "\": neither a shape (", known, ") nor the path of a config.json");
  }
  return read_hf_config(read_json_file(name_or_path), nullptr, name_or_path);
}

}  // namespace graft::models
