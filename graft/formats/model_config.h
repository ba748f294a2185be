// What a model is, in numbers: one struct for every family, filled from config.json or from GGUF
// metadata. Names are Hugging Face's. A field that the family does not use keeps its default.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::formats {

enum class Architecture : std::uint8_t {
  Llama,  // Llama 2/3 and everything that shares its shape (Mistral without a window)
  Mistral,
  Mixtral,
  Qwen2,
  Qwen2Moe,
  Qwen3,
  Qwen3Moe,
  DeepseekV2,
  DeepseekV3,  // also Kimi-K2 and Moonlight
  Glm4Moe,
  Llava,  // a Llama text model with a CLIP vision tower
};

struct ArchitectureInfo {
  Architecture architecture;
  std::string_view model_type;  // config.json "model_type"
  std::string_view hf_class;    // config.json "architectures"
  std::string_view gguf;        // GGUF "general.architecture"
};

// One row per Architecture, in its order.
const ArchitectureInfo& info(Architecture architecture);

// Also knows the second names of a family ("kimi_k2" is DeepseekV3).
std::optional<Architecture> architecture_from_model_type(std::string_view model_type);

enum class RopeKind : std::uint8_t { Default, Linear, Dynamic, Llama3, Yarn };

struct RopeConfig {
  double theta = 10000.0;
  RopeKind kind = RopeKind::Default;
  double factor = 1.0;
  std::int64_t original_max_position_embeddings = 0;  // 0: not given
  // YaRN
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 0.0;          // 0: not given
  double mscale_all_dim = 0.0;  // 0: not given
  std::optional<double> attention_factor;
  // llama3
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // The frequencies are divided by the tensor rope_freqs.weight of a GGUF file, and nothing in the
  // file says by which formula it was made: kind is Default then.
  bool has_freq_factors = false;

  bool operator==(const RopeConfig&) const = default;
};

enum class ScoringFunc : std::uint8_t { Softmax, Sigmoid };
enum class TopkMethod : std::uint8_t { Greedy, GroupLimitedGreedy, NoauxTc };

struct MoeConfig {
  std::int64_t num_experts = 0;  // 0: a dense model
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;
  std::int64_t num_shared_experts = 0;
  std::int64_t shared_expert_intermediate_size = 0;  // of all shared experts together
  bool shared_expert_gate = false;                   // Qwen2-MoE: sigmoid gate on the shared expert
  std::int64_t first_k_dense_replace = 0;            // leading layers without experts
  std::int64_t decoder_sparse_step = 1;              // every n-th layer has experts
  std::vector<std::int64_t> mlp_only_layers;         // layers without experts, by number
  ScoringFunc scoring_func = ScoringFunc::Softmax;
  TopkMethod topk_method = TopkMethod::Greedy;
  std::int64_t n_group = 1;
  std::int64_t topk_group = 1;
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1.0;

  bool operator==(const MoeConfig&) const = default;
};

// Multi-head latent attention (DeepSeek). kv_lora_rank 0: grouped-query attention.
struct MlaConfig {
  std::int64_t q_lora_rank = 0;  // 0: q_proj is one matrix
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;

  bool operator==(const MlaConfig&) const = default;
};

struct VisionConfig {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t image_size = 0;
  std::int64_t patch_size = 0;
  double layer_norm_eps = 1e-5;
  std::string hidden_act = "quick_gelu";
  std::int64_t feature_layer = -2;         // which layer's output feeds the projector
  std::string feature_select = "default";  // "default" drops the class token, "full" keeps it
  std::string projector_hidden_act = "gelu";
  std::int64_t image_token_index = 0;

  bool operator==(const VisionConfig&) const = default;
};

// How quantized safetensors weights are scaled ("quantization_config").
struct QuantizationConfig {
  std::string method;  // "fp8", "compressed-tensors" …; empty: none
  // [128, 128] as DeepSeek-V3; empty: one scale per tensor or per row
  std::vector<std::int64_t> weight_block_size;

  bool operator==(const QuantizationConfig&) const = default;
};

struct ModelConfig {
  Architecture architecture = Architecture::Llama;
  std::string name;         // general.name or the folder's name; may be empty
  std::string torch_dtype;  // "bfloat16" …, as config.json says; empty: not said

  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  // of the dense MLP
  std::int64_t num_hidden_layers = 0;  // without next-token-prediction layers
  std::int64_t num_nextn_predict_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;    // of query and key; for MLA qk_nope + qk_rope
  std::int64_t rotary_dim = 0;  // how many of head_dim are rotated
  std::int64_t max_position_embeddings = 0;
  std::int64_t sliding_window = 0;     // 0: none
  std::int64_t max_window_layers = 0;  // layers before this one see everything, window or not
  double rms_norm_eps = 1e-6;
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;         // q, k and v; for MLA q_a and kv_a
  bool attention_output_bias = false;  // o_proj
  bool mlp_bias = false;
  bool qk_norm = false;           // RMSNorm on each head of q and k
  bool rope_interleaved = false;  // pairs (2i, 2i+1) as stored in the checkpoint, not (i, i+d/2)
  RopeConfig rope;
  MlaConfig mla;
  MoeConfig moe;
  std::optional<VisionConfig> vision;
  QuantizationConfig quantization;

  std::vector<std::int64_t> eos_token_ids;  // of generation_config.json, else config.json
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> pad_token_id;
  // Sampling defaults of generation_config.json; "do_sample": false is temperature 0.
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;

  bool operator==(const ModelConfig&) const = default;

  bool is_moe() const { return moe.num_experts > 0; }
  bool is_mla() const { return mla.kv_lora_rank > 0; }
  bool layer_has_experts(std::int64_t layer) const;
};

// Throws Error (subject: `where`) naming every value that no model can have: zero or negative
// sizes, heads that do not divide, more experts per token than experts, and the like.
void validate(const ModelConfig& config, const std::string& where);

}  // namespace graft::formats
