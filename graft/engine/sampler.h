// Samples the next token from logits. Steps and order are vLLM's: allowed tokens (of the request
// and of structured output), bad words, min_tokens, logit bias, penalties; then greedy, or
// temperature, top_k, min_p, top_p, typical_p and a draw (min_p and top_k commute). The draw
// depends only on the seed and the number of output tokens, so a request gives the same text
// regardless of batch composition and after a restart.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graft/engine/sampling_params.h"
#include "graft/engine/sequence.h"
#include "graft/engine/token_counts.h"
#include "graft/ops/pass.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {

// Everything besides the logits that sampling depends on.
struct SamplingContext {
  const SamplingParams* params = nullptr;
  std::span<const TokenId> prompt = {};
  std::span<const TokenId> output = {};
  std::span<const TokenId> eos_token_ids = {};  // of the model
  std::uint64_t seed = 0;
  // Bits of the tokens that structured output allows, token t is bit t % 32 of word t / 32. Empty:
  // all.
  std::span<const std::uint32_t> allowed = {};
  const TokenCounts* counts = nullptr;  // of prompt and output; null: counted when needed
  const tokenizer::Tokenizer* tokenizer = nullptr;  // for SamplingStep::Infill
};

// Modifies the logits in place. Returns nothing when every token is masked or the logits are NaN or
// infinite.
std::optional<TokenId> sample(std::span<float> logits, const SamplingContext& context);

// Whether sampling needs SamplingContext::counts.
bool has_penalties(const SamplingParams& params);
// Whether only the host can sample: log probabilities and typical_p need all logits, and devices
// have one order of steps.
bool needs_host(const SamplingParams& params);
// Whether the distribution depends on earlier output (penalties, bad words of several tokens,
// structured output).
bool depends_on_output(const SamplingParams& params);
// Appends the parameters by which a device samples as sample() does. `num_output`: tokens before
// this one. The output of the context may lack the last of them unless depends_on_output().
// Requires !needs_host().
void add_device_row(const SamplingContext& context,
                    std::int64_t num_output,
                    ops::BatchSampling& sampling);

// Whether the parameters leave at least one token unmasked for the first position.
bool has_allowed_token(const SamplingParams& params,
                       std::span<const TokenId> eos_token_ids,
                       std::int64_t vocab_size);

// The distribution that `sample` draws from: the remaining tokens by ascending id. Empty when
// sampling fails.
struct TokenProb {
  TokenId token = 0;
  double prob = 0;
};
std::vector<TokenProb> distribution(std::span<float> logits, const SamplingContext& context);

// log softmax at `token` and at the `num_top` most likely tokens; ties by ascending token id.
TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token, std::int64_t num_top);

// Draw number `index` of the seed, uniform in [0, 1).
double uniform(std::uint64_t seed, std::uint64_t index);

}  // namespace graft::engine
