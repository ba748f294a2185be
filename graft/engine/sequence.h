// One answer in the making: the tokens so far, how many of them the model has seen, and the blocks
// that hold what it made of them.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/engine/block_manager.h"
#include "graft/engine/sampling_params.h"
#include "graft/tokenizer/detokenizer.h"

namespace graft::engine {

using RequestId = std::uint64_t;
using Clock = std::chrono::steady_clock;

// Which answer: sample `sample` of a request.
struct SequenceId {
  RequestId request = 0;
  std::int64_t sample = 0;

  auto operator<=>(const SequenceId&) const = default;
};

enum class FinishReason : std::uint8_t {
  Stop,    // an end token or a stop string
  Length,  // max_tokens, max_model_len, or the cache is full
  Abort,
  Error,
};
std::string_view to_string(FinishReason reason);

struct Finish {
  FinishReason reason = FinishReason::Stop;
  std::string message = {};                   // why, where the reason alone does not say
  std::optional<TokenId> stop_token = {};     // that ended it
  std::optional<std::string> stop_text = {};  // that ended it
};

// Natural logarithms of probabilities, of the model's own distribution (before any parameter).
struct TokenLogprobs {
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top = {};  // the most likely, best first
};

enum class SequenceState : std::uint8_t { Waiting, Running, Finished };

struct Sequence {
  SequenceId id;
  SamplingParams params;  // its n: samples that this one still becomes
  std::uint64_t seed = 0;
  std::int64_t priority = 0;    // lower runs first
  std::uint64_t arrival = 0;    // order of submission
  std::int64_t num_prompt = 0;  // of tokens

  std::vector<TokenId> tokens;    // prompt, then answer
  std::int64_t num_computed = 0;  // of them, in the cache
  BlockTable table;
  SequenceState state = SequenceState::Waiting;
  std::optional<Finish> finish;

  std::unique_ptr<tokenizer::Detokenizer> text;  // null: tokens only
  std::vector<TokenLogprobs> prompt_logprobs;    // from the second prompt token on

  std::int64_t num_cached = 0;  // prompt tokens that were found in the cache
  std::int64_t num_preemptions = 0;
  Clock::time_point arrived;
  std::optional<Clock::time_point> first_scheduled;
  std::optional<Clock::time_point> first_token;

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t num_output() const { return num_tokens() - num_prompt; }
  // What has to be computed before the next token can be chosen.
  std::int64_t num_pending() const { return num_tokens() - num_computed; }
  std::span<const TokenId> output() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(num_prompt));
  }
  // Who goes first.
  auto rank() const { return std::tuple(priority, arrival, id.sample); }
};

}  // namespace graft::engine
