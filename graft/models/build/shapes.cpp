#include "graft/models/build/shapes.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/formats/synthetic.h"
#include "graft/models/config/hf_config.h"

namespace graft::models {
namespace {

// Keys with the default value of the family are left out.
constexpr std::array kShapes = {
    Shape{"llama-1b", "Llama-3.2-1B", R"({"model_type": "llama", "hidden_size": 2048,
      "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "rope_theta": 500000.0,
      "rms_norm_eps": 1e-05, "max_position_embeddings": 131072, "tie_word_embeddings": true})"},
    Shape{"llama-8b", "Llama-3.1-8B", R"({"model_type": "llama", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "vocab_size": 128256, "rope_theta": 500000.0,
      "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rms_norm_eps": 1e-05,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})"},
    Shape{"qwen3-0.6b", "Qwen3-0.6B", R"({"model_type": "qwen3", "hidden_size": 1024,
      "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-06, "max_position_embeddings": 40960,
      "tie_word_embeddings": true})"},
    Shape{"qwen3-30b", "Qwen3-30B-A3B", R"({"model_type": "qwen3_moe", "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
      "vocab_size": 151936, "rope_theta": 1000000.0, "rms_norm_eps": 1e-06,
      "max_position_embeddings": 40960, "torch_dtype": "bfloat16"})"},
    Shape{"qwen3-235b", "Qwen3-235B-A22B", R"({"model_type": "qwen3_moe", "hidden_size": 4096,
      "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536,
      "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
      "vocab_size": 151936, "rope_theta": 1000000.0, "rms_norm_eps": 1e-06,
      "max_position_embeddings": 40960, "torch_dtype": "bfloat16"})"},
    Shape{"qwen2-57b", "Qwen2-57B-A14B", R"({"model_type": "qwen2_moe", "hidden_size": 3584,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
      "intermediate_size": 18944, "moe_intermediate_size": 2560,
      "shared_expert_intermediate_size": 20480, "num_experts": 64, "num_experts_per_tok": 8,
      "norm_topk_prob": false, "vocab_size": 151936, "rope_theta": 1000000.0,
      "rms_norm_eps": 1e-06, "max_position_embeddings": 32768, "torch_dtype": "bfloat16"})"},
    Shape{"qwen3-next-80b", "Qwen3-Next-80B-A3B", R"({"model_type": "qwen3_next",
      "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
      "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
      "partial_rotary_factor": 0.25, "moe_intermediate_size": 512,
      "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10,
      "norm_topk_prob": true, "vocab_size": 151936, "rope_theta": 10000000,
      "rms_norm_eps": 1e-06, "max_position_embeddings": 262144, "torch_dtype": "bfloat16"})"},
    Shape{"qwen3.5-35b", "Qwen3.5-35B-A3B", R"({"model_type": "qwen3_5_moe_text",
      "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
      "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16,
      "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
      "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "moe_intermediate_size": 512,
      "shared_expert_intermediate_size": 512, "num_experts": 256, "num_experts_per_tok": 8,
      "vocab_size": 248320, "rope_parameters": {"rope_type": "default",
      "rope_theta": 10000000, "partial_rotary_factor": 0.25}, "rms_norm_eps": 1e-06,
      "max_position_embeddings": 262144, "torch_dtype": "bfloat16"})"},
    Shape{"phi4-mini", "Phi-4-mini", R"({"model_type": "phi3", "hidden_size": 3072,
      "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 24,
      "num_key_value_heads": 8, "vocab_size": 200064, "rms_norm_eps": 1e-05,
      "partial_rotary_factor": 0.75, "sliding_window": 262144, "tie_word_embeddings": true,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})"},
    Shape{"phi4", "Phi-4", R"({"model_type": "phi3", "hidden_size": 5120,
      "intermediate_size": 17920, "num_hidden_layers": 40, "num_attention_heads": 40,
      "num_key_value_heads": 10, "vocab_size": 100352, "rms_norm_eps": 1e-05,
      "rope_theta": 250000, "max_position_embeddings": 16384, "torch_dtype": "bfloat16"})"},
    Shape{"gemma3-1b", "Gemma-3-1B", R"({"model_type": "gemma3_text", "hidden_size": 1152,
      "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
      "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144, "sliding_window": 512,
      "max_position_embeddings": 32768, "torch_dtype": "bfloat16"})"},
    Shape{"gemma3-27b", "Gemma-3-27B", R"({"model_type": "gemma3_text", "hidden_size": 5376,
      "intermediate_size": 21504, "num_hidden_layers": 62, "num_attention_heads": 32,
      "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 262208, "sliding_window": 1024,
      "query_pre_attn_scalar": 168, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})"},
    Shape{"mixtral", "Mixtral-8x7B", R"({"model_type": "mixtral", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
      "vocab_size": 32000, "rope_theta": 1000000.0, "rms_norm_eps": 1e-05,
      "max_position_embeddings": 32768, "torch_dtype": "bfloat16"})"},
    Shape{"minimax-m2", "MiniMax-M2", R"({"model_type": "minimax_m2", "hidden_size": 3072,
      "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8,
      "head_dim": 128, "rotary_dim": 64, "intermediate_size": 1536, "num_local_experts": 256,
      "num_experts_per_tok": 8, "scoring_func": "sigmoid", "use_routing_bias": true,
      "use_qk_norm": true, "qk_norm_type": "per_layer", "vocab_size": 200064,
      "rope_theta": 5000000, "rms_norm_eps": 1e-06, "max_position_embeddings": 196608,
      "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8",
      "fmt": "float8_e4m3fn", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})"},
    Shape{"glm-air", "GLM-4.5-Air", R"({"model_type": "glm4_moe", "hidden_size": 4096,
      "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8,
      "head_dim": 128, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1,
      "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": true,
      "routed_scaling_factor": 1.0, "use_qk_norm": false, "attention_bias": true,
      "partial_rotary_factor": 0.5, "vocab_size": 151552, "rope_theta": 1000000,
      "rms_norm_eps": 1e-05, "max_position_embeddings": 131072, "num_nextn_predict_layers": 1,
      "torch_dtype": "bfloat16"})"},
    Shape{"glm4-9b", "GLM-4-9B-0414", R"({"model_type": "glm4", "hidden_size": 4096,
      "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
      "head_dim": 128, "intermediate_size": 13696, "attention_bias": true,
      "partial_rotary_factor": 0.5, "vocab_size": 151552, "rope_theta": 10000.0,
      "rms_norm_eps": 1e-05, "max_position_embeddings": 32768, "torch_dtype": "bfloat16"})"},
    Shape{"glm4-32b", "GLM-4-32B-0414", R"({"model_type": "glm4", "hidden_size": 6144,
      "num_hidden_layers": 61, "num_attention_heads": 48, "num_key_value_heads": 2,
      "head_dim": 128, "intermediate_size": 23040, "attention_bias": false,
      "partial_rotary_factor": 0.5, "vocab_size": 151552, "rope_theta": 10000.0,
      "rms_norm_eps": 1e-05, "max_position_embeddings": 32768, "torch_dtype": "bfloat16"})"},
    Shape{"gpt-oss-20b", "GPT-OSS-20B", R"({"model_type": "gpt_oss", "hidden_size": 2880,
      "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
      "num_experts_per_tok": 4, "sliding_window": 128, "swiglu_limit": 7.0,
      "vocab_size": 201088, "rope_theta": 150000, "rope_scaling": {"rope_type": "yarn",
      "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
      "original_max_position_embeddings": 4096}, "rms_norm_eps": 1e-05,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
      "quantization_config": {"quant_method": "mxfp4"}})"},
    Shape{"gpt-oss-120b", "GPT-OSS-120B", R"({"model_type": "gpt_oss", "hidden_size": 2880,
      "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
      "num_experts_per_tok": 4, "sliding_window": 128, "swiglu_limit": 7.0,
      "vocab_size": 201088, "rope_theta": 150000, "rope_scaling": {"rope_type": "yarn",
      "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
      "original_max_position_embeddings": 4096}, "rms_norm_eps": 1e-05,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
      "quantization_config": {"quant_method": "mxfp4"}})"},
    Shape{"dsv2-lite", "DeepSeek-V2-Lite", R"({"model_type": "deepseek_v2",
      "rms_norm_eps": 1e-06, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "rope_theta": 10000,
      "max_position_embeddings": 163840, "torch_dtype": "bfloat16", "hidden_size": 2048,
      "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
      "q_lora_rank": null, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
      "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
      "scoring_func": "softmax", "norm_topk_prob": false, "routed_scaling_factor": 1.0,
      "vocab_size": 102400, "rope_scaling": {"type": "yarn", "factor": 40,
      "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
      "mscale": 0.707, "mscale_all_dim": 0.707}})"},
    Shape{"dsv2", "DeepSeek-V2", R"({"model_type": "deepseek_v2", "rms_norm_eps": 1e-06,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "rope_theta": 10000, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
      "hidden_size": 5120, "num_hidden_layers": 60, "num_attention_heads": 128,
      "num_key_value_heads": 128, "q_lora_rank": 1536, "intermediate_size": 12288,
      "moe_intermediate_size": 1536, "n_routed_experts": 160, "num_experts_per_tok": 6,
      "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 8, "topk_group": 3,
      "topk_method": "group_limited_greedy", "scoring_func": "softmax",
      "norm_topk_prob": false, "routed_scaling_factor": 16.0, "vocab_size": 102400,
      "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
      "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}})"},
    Shape{"dsv3", "DeepSeek-V3", R"({"model_type": "deepseek_v3", "rms_norm_eps": 1e-06,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "rope_theta": 10000, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
      "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
      "num_key_value_heads": 128, "q_lora_rank": 1536, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
      "n_shared_experts": 1, "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4,
      "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": true,
      "routed_scaling_factor": 2.5, "vocab_size": 129280, "rope_scaling": {"type": "yarn",
      "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
      "mscale": 1.0, "mscale_all_dim": 1.0}, "num_nextn_predict_layers": 1,
      "quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})"},
    Shape{"dsv3.2", "DeepSeek-V3.2", R"({"model_type": "deepseek_v32", "rms_norm_eps": 1e-06,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "rope_theta": 10000, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
      "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
      "num_key_value_heads": 128, "q_lora_rank": 1536, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
      "n_shared_experts": 1, "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4,
      "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": true,
      "routed_scaling_factor": 2.5, "vocab_size": 129280, "index_head_dim": 128,
      "index_n_heads": 64, "index_topk": 2048, "rope_scaling": {"type": "yarn",
      "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
      "mscale": 1.0, "mscale_all_dim": 1.0}, "num_nextn_predict_layers": 1,
      "quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})"},
    Shape{"dsv4-flash", "DeepSeek-V4-Flash", R"({"model_type": "deepseek_v4",
      "rms_norm_eps": 1e-06, "hidden_size": 4096, "num_hidden_layers": 43,
      "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "q_lora_rank": 1024,
      "qk_rope_head_dim": 64, "o_groups": 8, "o_lora_rank": 1024, "sliding_window": 128,
      "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
      "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512, "hc_mult": 4,
      "hc_sinkhorn_iters": 20, "hc_eps": 1e-06, "num_hash_layers": 3,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 6,
      "n_shared_experts": 1, "topk_method": "noaux_tc", "scoring_func": "sqrtsoftplus",
      "norm_topk_prob": true, "routed_scaling_factor": 1.5, "swiglu_limit": 10.0,
      "vocab_size": 129280, "rope_theta": 10000, "compress_rope_theta": 160000,
      "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536,
      "beta_fast": 32, "beta_slow": 1}, "max_position_embeddings": 1048576,
      "torch_dtype": "bfloat16"})"},
    Shape{"glm-5", "GLM-5", R"({"model_type": "glm_moe_dsa", "rms_norm_eps": 1e-05,
      "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256,
      "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
      "max_position_embeddings": 202752, "torch_dtype": "bfloat16",
      "hidden_size": 6144, "num_hidden_layers": 78, "num_attention_heads": 64,
      "num_key_value_heads": 64, "q_lora_rank": 2048, "intermediate_size": 12288,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
      "n_shared_experts": 1, "first_k_dense_replace": 3, "n_group": 1, "topk_group": 1,
      "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": true,
      "routed_scaling_factor": 2.5, "vocab_size": 154880, "index_head_dim": 128,
      "index_n_heads": 32, "index_topk": 2048, "num_nextn_predict_layers": 1})"},
    Shape{"llama4-scout", "Llama-4-Scout", R"({"model_type": "llama4_text", "hidden_size": 5120,
      "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
      "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
      "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
      "use_qk_norm": true, "attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1,
      "vocab_size": 202048, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3",
      "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
      "original_max_position_embeddings": 8192}, "rms_norm_eps": 1e-05,
      "max_position_embeddings": 10485760, "torch_dtype": "bfloat16"})"},
    Shape{"llama4-maverick", "Llama-4-Maverick", R"({"model_type": "llama4_text",
      "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
      "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
      "intermediate_size_mlp": 16384, "num_local_experts": 128, "num_experts_per_tok": 1,
      "interleave_moe_layer_step": 2, "use_qk_norm": false, "attention_chunk_size": 8192,
      "attn_temperature_tuning": true, "floor_scale": 8192, "attn_scale": 0.1,
      "vocab_size": 202048, "rope_theta": 500000.0, "rope_scaling": null, "rms_norm_eps": 1e-05,
      "max_position_embeddings": 1048576, "torch_dtype": "bfloat16"})"},
    Shape{"kimi-k2", "Kimi-K2", R"({"model_type": "kimi_k2", "rms_norm_eps": 1e-06,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "rope_theta": 50000, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
      "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 64,
      "num_key_value_heads": 64, "q_lora_rank": 1536, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 384, "num_experts_per_tok": 8,
      "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
      "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": true,
      "routed_scaling_factor": 2.827, "vocab_size": 163840, "rope_scaling": {"type": "yarn",
      "factor": 32, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
      "mscale": 1.0, "mscale_all_dim": 1.0}, "quantization_config": {"quant_method": "fp8",
      "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})"},
    Shape{"kimi-k2-thinking", "Kimi-K2-Thinking", R"({"model_type": "kimi_k2",
      "rms_norm_eps": 1e-05, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "rope_theta": 50000, "max_position_embeddings": 262144,
      "torch_dtype": "bfloat16", "hidden_size": 7168, "num_hidden_layers": 61,
      "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 1536,
      "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 384,
      "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
      "topk_group": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
      "norm_topk_prob": true, "routed_scaling_factor": 2.827, "vocab_size": 163840,
      "rope_scaling": {"type": "yarn", "factor": 64, "original_max_position_embeddings": 4096,
      "beta_fast": 1, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
      "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
      "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
      "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], "config_groups": {"group_0": {
      "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": true,
      "strategy": "group", "group_size": 32}}}}})"},
};

ModelConfig config_of(const Shape& shape, std::string_view name) {
  const std::string known(name);
  ModelConfig config = read_hf_config(parse_json(shape.config, known), nullptr, known);
  config.name = known;
  return config;
}

// The name of the shape that was meant: some short and published names differ only in case.
std::string_view spelled(const Shape& shape, std::string_view name) {
  const bool is_published = name != shape.name && equal_ignoring_case(shape.summary, name);
  return is_published ? shape.summary : shape.name;
}

}  // namespace

std::span<const Shape> shapes() {
  return kShapes;
}

const Shape* find_shape(std::string_view name) {
  const auto* found = std::ranges::find_if(kShapes, [&](const Shape& shape) {
    return equal_ignoring_case(shape.name, name) || equal_ignoring_case(shape.summary, name);
  });
  return found == kShapes.end() ? nullptr : found;
}

ModelConfig shape_config(const std::string& name_or_path) {
  if (const Shape* shape = find_shape(name_or_path))
    return config_of(*shape, spelled(*shape, name_or_path));
  if (!std::filesystem::exists(name_or_path)) {
    std::string known;
    for (const Shape& shape : kShapes)
      known += str(known.empty() ? "" : ", ", shape.name);
    fail("\"", name_or_path, "\": neither a shape (", known, ") nor the path of a config.json");
  }
  return read_hf_config(read_json_file(name_or_path), nullptr, name_or_path);
}

std::unique_ptr<Checkpoint> open_shape(const Shape& shape) {
  constexpr std::int64_t kMinVocabulary = 257;  // of a synthetic tokenizer, which no plan reads
  ModelConfig config = config_of(shape, shape.summary);
  auto nothing = formats::make_synthetic(config.name, kMinVocabulary, {});
  return std::make_unique<Checkpoint>(std::move(nothing), std::move(config));
}

}  // namespace graft::models
