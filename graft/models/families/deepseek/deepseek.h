// Shared by the families with the layers of DeepSeek-V3: multi-head latent attention, routed and
// shared experts.

#pragma once

#include "graft/models/families/common.h"

namespace graft::models {

// What a config.json of DeepSeek-V3 may leave out.
inline constexpr HfDefaults kDeepseekV3Defaults = {.vocab_size = 129280,
                                                   .hidden_size = 7168,
                                                   .intermediate_size = 18432,
                                                   .num_hidden_layers = 61,
                                                   .num_attention_heads = 128,
                                                   .num_key_value_heads = 128,
                                                   .max_position_embeddings = 4096};

inline constexpr HfMoeDefaults kDeepseekV3Moe = {.num_experts = 256,
                                                 .num_experts_per_tok = 8,
                                                 .moe_intermediate_size = 2048,
                                                 .num_shared_experts = 1,
                                                 .first_k_dense_replace = 3,
                                                 .n_group = 8,
                                                 .topk_group = 4,
                                                 .norm_topk_prob = true,
                                                 .routed_scaling_factor = 2.5,
                                                 .scoring_func = RouterScoring::Sigmoid,
                                                 .topk_method = RouterMethod::NoauxTc};

void read_deepseek(const formats::Fields& fields,
                   const HfDefaults& defaults,
                   const HfMoeDefaults& moe_defaults,
                   ModelConfig& config);

plan::Blueprint build_deepseek(Builder& build);

}  // namespace graft::models
