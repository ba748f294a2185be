// How the next token is chosen and when an answer ends. Names and meanings are vLLM's.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {

using tokenizer::TokenId;

// Below this temperature the most likely token is taken.
inline constexpr double kGreedyTemperature = 1e-5;

struct SamplingParams {
  std::int64_t n = 1;  // samples of one prompt; sample i of a seeded request has the seed + i

  double temperature = 1.0;
  std::int64_t top_k = 0;  // 0 and -1: off
  double top_p = 1.0;
  double min_p = 0.0;
  double typical_p = 1.0;
  double repetition_penalty = 1.0;  // over prompt and answer
  double presence_penalty = 0.0;    // over the answer
  double frequency_penalty = 0.0;   // over the answer
  std::optional<std::uint64_t> seed;

  std::vector<std::pair<TokenId, float>> logit_bias;  // clamped to +-100
  std::vector<TokenId> allowed_token_ids;             // empty: all
  // Token sequences that must not appear: the last token of each is forbidden after the others.
  std::vector<std::vector<TokenId>> bad_words;

  std::optional<std::int64_t> max_tokens;  // none: until the context is full
  std::int64_t min_tokens = 0;             // before them no end token and no stop counts
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;

  std::optional<std::int64_t> logprobs;         // so many alternatives; 0: of the chosen one only
  std::optional<std::int64_t> prompt_logprobs;  // likewise of the prompt's tokens

  bool operator==(const SamplingParams&) const = default;
  bool is_greedy() const { return temperature < kGreedyTemperature; }
};

// Throws Error with everything that is wrong.
void validate(const SamplingParams& params, std::int64_t vocab_size);

}  // namespace graft::engine
