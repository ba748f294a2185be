// One sequence: its tokens, how many of them are computed, and the KV cache blocks that hold them.

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

// Sample `sample` of a request, 0 to n - 1.
struct SequenceId {
  RequestId request = 0;
  std::int64_t sample = 0;

  auto operator<=>(const SequenceId&) const = default;
};

enum class FinishReason : std::uint8_t {
  Stop,    // an EOS token, a stop token or a stop string
  Length,  // max_tokens, max_model_len, or the KV cache is full
  Abort,
  Error,
};
std::string_view to_string(FinishReason reason);

struct Finish {
  FinishReason reason = FinishReason::Stop;
  std::string message = {};                   // details, where the reason alone is not enough
  std::optional<TokenId> stop_token = {};     // the EOS or stop token that was sampled
  std::optional<std::string> stop_text = {};  // the stop string that was matched
};

// Natural logarithms of the model's own probabilities, before any sampling parameter is applied.
struct TokenLogprobs {
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top = {};  // the most likely tokens, descending
};

enum class SequenceState : std::uint8_t { Waiting, Running, Finished };

struct Sequence {
  SequenceId id;
  SamplingParams params;  // params.n: sequences that this one still forks into, itself included
  std::uint64_t seed = 0;
  std::int64_t priority = 0;        // lower runs first
  std::uint64_t arrival_order = 0;  // order of submission
  std::int64_t num_prompt = 0;      // prompt tokens

  std::vector<TokenId> tokens;    // prompt, then output
  std::int64_t num_computed = 0;  // leading tokens whose keys and values are in the KV cache
  BlockTable table;
  SequenceState state = SequenceState::Waiting;

  std::unique_ptr<tokenizer::Detokenizer> detokenizer;  // null: token ids only
  std::vector<TokenLogprobs> prompt_logprobs;           // starts at the second prompt token

  std::int64_t num_cached = 0;  // prompt tokens found in the prefix cache
  Clock::time_point arrived;
  std::optional<Clock::time_point> first_scheduled;
  std::optional<Clock::time_point> first_token;

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t num_output() const { return num_tokens() - num_prompt; }
  // Tokens to compute before the next one can be sampled.
  std::int64_t num_pending() const { return num_tokens() - num_computed; }
  std::span<const TokenId> output() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(num_prompt));
  }
  // Scheduling order: the lower rank runs first.
  auto rank() const { return std::tuple(priority, arrival_order, id.sample); }
};

}  // namespace graft::engine
