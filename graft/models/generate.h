// Prompts through a model without an engine, for verification: all of them side by side, so many
// tokens of each per pass, each in blocks of its own.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/models/model.h"

namespace graft::models {

using TokenIds = std::vector<std::int32_t>;

struct RunOptions {
  std::int64_t chunk = 0;  // tokens of a prompt per pass; 0: all of them in one
  bool hidden = false;     // keep hidden states
};

struct PromptRun {
  std::vector<float> logits;               // [tokens, vocab], of every position
  std::vector<std::vector<float>> hidden;  // of layers 0 … num_layers: [tokens, hidden]
};

// (Re)allocates the model's cache when it is too small.
std::vector<PromptRun> run_prompts(Model& model,
                                   std::span<const TokenIds> prompts,
                                   const RunOptions& options = {});

// The most likely tokens after the prompt, whatever they are: end tokens do not end it.
TokenIds generate_greedy(Model& model,
                         const TokenIds& prompt,
                         std::int64_t num_tokens,
                         std::int64_t chunk = 0);

}  // namespace graft::models
