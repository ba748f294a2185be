// The keys of config.json that families share. An absent key has the default of the family's
// configuration class in transformers. Values of the wrong type are reported through `fields` and
// leave the default.

#pragma once

#include <cstdint>

#include "graft/formats/huggingface/fields.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

struct HfDefaults {
  std::int64_t vocab_size;
  std::int64_t hidden_size;
  std::int64_t intermediate_size;
  std::int64_t num_hidden_layers;
  std::int64_t num_attention_heads;
  std::int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;
};

struct HfMoeDefaults {
  std::int64_t num_experts;
  std::int64_t num_experts_per_tok;
  std::int64_t moe_intermediate_size;  // 0: always intermediate_size, the key is ignored
  std::int64_t num_shared_experts = 0;
  std::int64_t first_k_dense_replace = 0;
  std::int64_t n_group = 1;
  std::int64_t topk_group = 1;
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1.0;
  RouterScoring scoring_func = RouterScoring::Softmax;
  RouterMethod topk_method = RouterMethod::Greedy;
};

// transformers' default sliding window in tokens.
inline constexpr std::int64_t kDefaultWindow = 4096;

void read_sizes(const formats::Fields& fields, const HfDefaults& defaults, ModelConfig& config);

// Grouped-query attention. Call after read_sizes().
void read_head_dim(const formats::Fields& fields, const HfDefaults& defaults, ModelConfig& config);
// Multi-head latent attention: ranks and head sizes.
void read_mla(const formats::Fields& fields, ModelConfig& config);
// "attention_bias": biases on q, k, v and on the output.
void read_attention_bias(const formats::Fields& fields, ModelConfig& config);
// "use_sliding_window", "sliding_window", "max_window_layers" or "layer_types".
void read_optional_window(const formats::Fields& fields,
                          std::int64_t default_max_window_layers,
                          ModelConfig& config);

// Routed experts and routing; false when the file has 0 experts.
bool read_moe(const formats::Fields& fields, const HfMoeDefaults& defaults, ModelConfig& config);
// "n_shared_experts" experts of moe_intermediate_size. Call after read_moe().
void read_shared_experts(const formats::Fields& fields,
                         const HfMoeDefaults& defaults,
                         ModelConfig& config);

// rope and rotary_dim, from the classic keys (rope_theta, rope_scaling) or from rope_parameters.
// Requires head_dim, mla and max_position_embeddings to be set.
void read_rope(const formats::Fields& fields, const HfDefaults& defaults, ModelConfig& config);

}  // namespace graft::models
