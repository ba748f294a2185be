// From logits to the next token. The steps and their order are vLLM's: allowed tokens, bad words,
// minimum length, bias, penalties, then greedy, or temperature, top_k, min_p, top_p, typical and a
// draw (min_p and top_k keep the same in either order). The draw depends on the seed and on how
// many tokens there are already, on nothing else: the same request gives the same text in any
// company, and after a restart.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graft/engine/sampling_params.h"
#include "graft/engine/sequence.h"

namespace graft::engine {

// What the choice depends on beside the logits.
struct SamplingContext {
  const SamplingParams* params = nullptr;
  std::span<const TokenId> prompt = {};
  std::span<const TokenId> output = {};
  std::span<const TokenId> end_tokens = {};  // of the model
  std::uint64_t seed = 0;
};

// Changes the logits on the way. Nothing when no token is left to choose: all are forbidden, or the
// logits are no numbers.
std::optional<TokenId> sample(std::span<float> logits, const SamplingContext& context);

// The likeliest tokens of a row, the likeliest first, of equal ones the lower id. A logit that is
// no number comes before all others.
struct TopK {
  std::span<const TokenId> tokens = {};
  std::span<const float> logits = {};
};

// So many of them are enough to choose the token after `num_output` others; nothing when all logits
// must be seen.
std::optional<std::int64_t> required_top_k(const SamplingParams& params, std::int64_t num_output);
// The token that the whole row would give. They are at least as many as needed.
std::optional<TokenId> sample(const TopK& likely, const SamplingContext& context);

// False when the parameters alone forbid every first token.
bool leaves_choice(const SamplingParams& params,
                   std::span<const TokenId> end_tokens,
                   std::int64_t vocab_size);

// The distribution that `sample` draws from: the tokens left and their probabilities, ids
// ascending. None when none can be chosen.
struct Candidate {
  TokenId token = 0;
  double probability = 0;
};
std::vector<Candidate> distribution(std::span<float> logits, const SamplingContext& context);

// log softmax at `token` and at the `num_top` most likely tokens (equal ones: lower ids first).
TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token, std::int64_t num_top);

// Uniform in [0, 1): draw number `index` of that seed.
double uniform(std::uint64_t seed, std::uint64_t index);

}  // namespace graft::engine
