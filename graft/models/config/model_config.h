// The hyperparameters of a model: one struct for all families, read from config.json or from GGUF
// metadata. Names are Hugging Face's. A field that the family does not use keeps its default.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/formats/integers/integer_config.h"
#include "graft/formats/tokenizer_data.h"
#include "graft/ops/params.h"
#include "graft/vision/processor.h"

namespace graft::models {

struct Family;

enum class RopeKind : std::uint8_t { Default, Linear, Dynamic, Llama3, Yarn, LongRope };

struct RopeConfig {
  double theta = 10000.0;
  RopeKind kind = RopeKind::Default;
  double factor = 1.0;
  std::int64_t original_max_position_embeddings = 0;  // 0: not given
  // YaRN
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 0.0;                     // 0: not given
  double mscale_all_dim = 0.0;             // 0: not given
  std::optional<double> attention_factor;  // always given for LongRoPE
  // LongRoPE: divisors of the frequencies, [rotary_dim / 2]; sequences of more than
  // original_max_position_embeddings tokens use long_factor.
  std::vector<float> short_factor;
  std::vector<float> long_factor;
  bool truncate = true;  // rounds both ends of the ramp outwards to whole pairs
  // llama3
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // The GGUF tensor rope_freqs.weight divides the frequencies; the file does not name the formula
  // behind it, so kind is Default.
  bool has_freq_factors = false;

  bool operator==(const RopeConfig&) const = default;
};

using RouterScoring = ops::RouterParams::Scoring;
using RouterMethod = ops::RouterParams::Method;

struct MoeConfig {
  std::int64_t num_experts = 0;  // 0: a dense model
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;
  std::int64_t num_shared_experts = 0;
  std::int64_t shared_expert_intermediate_size = 0;  // of all shared experts together
  bool shared_expert_gate = false;                   // Qwen2-MoE: sigmoid gate on the shared expert
  std::int64_t first_k_dense_replace = 0;            // leading layers without experts
  std::int64_t decoder_sparse_step = 1;              // every n-th layer has experts
  std::vector<std::int64_t> mlp_only_layers;         // indices of layers without experts
  RouterScoring scoring_func = RouterScoring::Softmax;
  RouterMethod topk_method = RouterMethod::Greedy;
  std::int64_t n_group = 1;
  std::int64_t topk_group = 1;
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1.0;
  bool router_bias = false;
  bool expert_bias = false;   // on all three projections
  double swiglu_limit = 0.0;  // of GPT-OSS's clamped activation; 0: silu(gate) * up
  bool limits_silu = false;   // with swiglu_limit: silu(gate) * up of limited factors instead
  // Leading layers that find the experts of a token in a table.
  std::int64_t num_hash_layers = 0;
  bool scales_input = false;  // Llama 4: the router's scores multiply the input of the experts

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

// Layers with the gated delta rule instead of attention (Qwen3-Next).
struct DeltaNetConfig {
  std::int64_t num_key_heads = 0;
  std::int64_t num_value_heads = 0;
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t conv_kernel_dim = 0;
  std::vector<bool> layers;        // by layer, whether it has the delta rule; empty: none
  bool tiled_value_heads = false;  // as GGUF files of Qwen3.5 order them

  bool operator==(const DeltaNetConfig&) const = default;
};

// The lightning indexer of sparse attention. num_heads 0: none.
struct IndexerConfig {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t top_k = 0;         // positions that a token attends to
  bool rope_interleaved = false;  // of the indexer's own queries and keys
  // By layer, whether it has an indexer; others use the selection of the last layer that has one.
  // Empty: every layer has one.
  std::vector<bool> layers = {};

  bool operator==(const IndexerConfig&) const = default;
};

// Attention over a sliding window and compressed entries (DeepSeek-V4). output_groups 0: none.
struct CompressedConfig {
  // Window: the sliding window alone. Sparse: an indexer selects among entries of a few tokens.
  // Heavy: all entries of many tokens.
  enum class Kind : std::uint8_t { Window, Sparse, Heavy };

  std::vector<Kind> layers;      // by layer
  std::int64_t sparse_rate = 0;  // tokens per entry
  std::int64_t heavy_rate = 0;
  std::int64_t output_groups = 0;
  std::int64_t output_lora_rank = 0;

  bool operator==(const CompressedConfig&) const = default;
};

// Hyper-connections. mult 0: none.
struct HyperConfig {
  std::int64_t mult = 0;
  std::int64_t sinkhorn_iters = 0;
  double eps = 1e-6;

  bool operator==(const HyperConfig&) const = default;
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
  std::int64_t feature_layer = -2;         // the layer whose output feeds the projector
  std::string feature_select = "default";  // "default" drops the class token, "full" keeps it
  std::string projector_hidden_act = "gelu";
  bool projector_bias = true;
  std::int64_t image_token_index = 0;
  bool has_tiles = false;  // LLaVA-NeXT: tiles in one of several resolutions
  vision::ProcessorConfig processor = {};

  bool operator==(const VisionConfig&) const = default;
  std::int64_t num_computed_layers() const {
    return feature_layer < 0 ? num_hidden_layers + 1 + feature_layer : feature_layer;
  }
};

// How quantized safetensors weights are scaled ("quantization_config").
struct QuantizationConfig {
  std::string method;  // "fp8", "compressed-tensors" …; empty: none
  // [128, 128] as DeepSeek-V3; empty: one scale per tensor or per row
  std::vector<std::int64_t> weight_block_size;
  formats::IntegerConfig integers = {};
  bool fp4_experts = false;  // "expert_dtype": routed experts in MXFP4, as DeepSeek-V4

  bool operator==(const QuantizationConfig&) const = default;
};

struct ModelConfig {
  const Family* family = nullptr;  // null: a checkpoint without a configuration
  std::string name;                // general.name or the folder's name; may be empty
  std::string torch_dtype;         // "bfloat16" …, from config.json; empty: not given

  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  // of the dense MLP
  std::int64_t num_hidden_layers = 0;  // without next-token-prediction layers
  std::int64_t num_nextn_predict_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;  // of query and key; for MLA qk_nope + qk_rope
  // The first rotary_dim elements of each head are rotated; in compressed attention the last.
  std::int64_t rotary_dim = 0;
  std::int64_t max_position_embeddings = 0;
  std::int64_t sliding_window = 0;     // 0: none
  std::int64_t max_window_layers = 0;  // layers before this one attend to all tokens
  // By layer, whether it has the sliding window; empty: the layers from max_window_layers on.
  std::vector<bool> window_layers;
  std::int64_t attention_chunk_size = 0;  // layers with RoPE attend within such chunks; 0: none
  // By layer, whether it has rotary embeddings; empty: every layer.
  std::vector<bool> rope_layers;
  // Of layers without RoPE (ops::AttentionParams::temperature_floor); 0: none.
  std::int64_t temperature_floor = 0;
  double temperature_scale = 0.0;
  bool attention_sinks = false;  // a logit per head in the softmax's denominator
  double rms_norm_eps = 1e-6;
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;         // q, k and v; for MLA q_a and kv_a
  bool attention_output_bias = false;  // o_proj
  bool mlp_bias = false;
  bool qk_norm = false;            // RMSNorm on each head of q and k
  bool qk_norm_all_heads = false;  // with qk_norm: on all heads of q or k together
  bool qk_l2_norm = false;         // a norm without weights on each head, in layers with RoPE
  bool rope_interleaved = false;   // pairs (2i, 2i+1) as stored in the checkpoint, not (i, i+d/2)
  RopeConfig rope;
  double local_rope_theta = 0.0;       // of layers with a window, without scaling; 0: rope
  double query_pre_attn_scalar = 0.0;  // scores are divided by its square root; 0: head_dim
  bool scaled_embedding = false;       // rows of the embedding are multiplied by sqrt(hidden_size)
  bool attention_output_gate = false;  // q_proj has a gate per head beside the query
  MlaConfig mla;
  DeltaNetConfig delta_net;
  IndexerConfig indexer;
  CompressedConfig compressed;
  HyperConfig hyper;
  MoeConfig moe;
  std::optional<VisionConfig> vision;
  QuantizationConfig quantization;

  std::vector<std::int64_t> eos_token_ids;  // from generation_config.json, else config.json
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> pad_token_id;
  // Sampling defaults of generation_config.json; "do_sample": false is temperature 0.
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;

  bool operator==(const ModelConfig&) const = default;

  bool is_moe() const { return moe.num_experts > 0; }
  bool is_mla() const { return mla.kv_lora_rank > 0; }
  bool is_compressed() const { return compressed.output_groups > 0; }
  bool layer_has_experts(std::int64_t layer) const;
  bool layer_has_window(std::int64_t layer) const;
  bool layer_is_linear(std::int64_t layer) const;
  bool layer_has_rope(std::int64_t layer) const;
  bool layer_has_indexer(std::int64_t layer) const;
  formats::ModelTokens tokens() const;
};

// Throws one Error (subject: `where`) that names every invalid value: zero or negative sizes,
// heads that do not divide, more experts per token than experts, and so on.
void validate(const ModelConfig& config, const std::string& where);

}  // namespace graft::models
