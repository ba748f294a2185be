// What transformers takes for keys that a config.json leaves out, family by family.

#pragma once

#include <cstdint>

#include "graft/formats/model_config.h"

namespace graft::formats {

struct FamilyDefaults {
  Architecture architecture;
  std::int64_t vocab_size;
  std::int64_t hidden_size;
  std::int64_t intermediate_size;
  std::int64_t num_hidden_layers;
  std::int64_t num_attention_heads;
  std::int64_t num_key_value_heads;  // 0: as many as attention heads
  std::int64_t head_dim;             // 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings;
  double rms_norm_eps;
  double rope_theta;
};

struct MoeDefaults {
  Architecture architecture;
  std::int64_t num_experts;
  std::int64_t num_experts_per_tok;
  std::int64_t moe_intermediate_size;
  std::int64_t num_shared_experts;
  std::int64_t first_k_dense_replace;
  std::int64_t n_group;
  std::int64_t topk_group;
  bool norm_topk_prob;
  double routed_scaling_factor;
};

const FamilyDefaults& family_defaults(Architecture architecture);
// Null for a family without experts.
const MoeDefaults* moe_defaults(Architecture architecture);

}  // namespace graft::formats
