// Runs prompts through a model without an engine, for verification: all prompts in one batch, up to
// `chunk` tokens of each per pass, each with its own KV-cache blocks.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/models/model.h"

namespace graft::models {

using TokenIds = std::vector<std::int32_t>;

struct RunOptions {
  std::int64_t chunk = 0;                   // tokens of a prompt per pass; 0: the whole prompt
  bool hidden = false;                      // keep hidden states
  std::vector<std::int32_t> adapters = {};  // SequenceSlice::adapter by prompt; empty: none
};

struct PromptRun {
  std::vector<float> logits;               // [tokens, vocab]
  std::vector<std::vector<float>> hidden;  // [num_layers + 1] of [tokens, hidden]; 0: embedding
};

// Reallocates the model's KV cache when it is too small.
std::vector<PromptRun> run_prompts(Model& model,
                                   std::span<const TokenIds> prompts,
                                   const RunOptions& options = {});

// Greedy continuation of the prompt; end tokens do not stop it.
TokenIds generate_greedy(Model& model,
                         const TokenIds& prompt,
                         std::int64_t num_tokens,
                         std::int64_t chunk = 0,
                         std::int32_t adapter = -1);

}  // namespace graft::models
