// Shared by Llama, Mistral and other families.

#pragma once

#include "graft/models/families/common.h"

namespace graft::models {

inline constexpr HfDefaults kLlamaDefaults = {.vocab_size = 32000,
                                              .hidden_size = 4096,
                                              .intermediate_size = 11008,
                                              .num_hidden_layers = 32,
                                              .num_attention_heads = 32,
                                              .max_position_embeddings = 2048};

inline constexpr HfDefaults kMistralDefaults = {.vocab_size = 32000,
                                                .hidden_size = 4096,
                                                .intermediate_size = 14336,
                                                .num_hidden_layers = 32,
                                                .num_attention_heads = 32,
                                                .num_key_value_heads = 8,
                                                .max_position_embeddings = 131072};

// Sizes, attention and MLP of Llama: all but RoPE.
void read_llama_layers(const formats::Fields& fields,
                       const HfDefaults& defaults,
                       ModelConfig& config);

// "sliding_window": null means none, an absent key 4096 tokens.
void read_mistral_window(const formats::Fields& fields, ModelConfig& config);

}  // namespace graft::models
