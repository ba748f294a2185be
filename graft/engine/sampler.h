// From logits to the next token. The steps and their order are vLLM's: allowed tokens, bad words,
// minimum length, bias, penalties, then greedy, or temperature, min_p, top_k, top_p, typical and a
// draw. The draw depends on the seed and on how many tokens there are already, on nothing else: the
// same request gives the same text in any company, and after a restart.

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

// False when the parameters alone forbid every first token.
bool leaves_choice(const SamplingParams& params,
                   std::span<const TokenId> end_tokens,
                   std::int64_t vocab_size);

// The distribution that `sample` draws from: the tokens left and their probabilities, ids
// ascending.
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
