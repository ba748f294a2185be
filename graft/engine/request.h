// Requests to the engine and the updates it returns.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/engine/block_manager.h"
#include "graft/engine/sampling_params.h"
#include "graft/engine/sequence.h"

namespace graft::engine {

struct Request {
  RequestId id = 0;  // 0: assigned by the engine; otherwise must be unique
  std::vector<TokenId> prompt = {};
  SamplingParams params = {};
  std::int64_t priority = 0;  // lower runs first
  // Only requests with the same salt share prefix-cache blocks. Separate salts keep one user from
  // detecting another's prompts by their time to first token. 0 is an ordinary salt.
  std::uint64_t cache_salt = 0;
};

// The new output of a sequence after one step. Every sequence of a request finishes exactly once.
struct Update {
  SequenceId id = {};
  std::vector<TokenId> tokens = {};          // new tokens, including a final EOS or stop token
  std::string text = {};                     // new complete text; empty without a tokenizer
  std::vector<TokenLogprobs> logprobs = {};  // of `tokens`, when requested
  std::optional<Finish> finish = {};         // set in the last update of a sequence
  // Totals of the sequence so far.
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;
  std::int64_t num_output = 0;
  // Set in the last update of a sequence.
  std::vector<TokenLogprobs> prompt_logprobs = {};
  Clock::time_point arrived = {};
  std::optional<Clock::time_point> first_scheduled = {};
  std::optional<Clock::time_point> first_token = {};
};

// How the hidden states of a text are pooled into one embedding.
enum class Pooling : std::uint8_t { Mean, Last };

struct EngineStats {
  std::int64_t num_running = 0;
  std::int64_t num_waiting = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_queried_tokens = 0;  // looked up in the prefix cache
  std::int64_t num_hit_tokens = 0;      // found in the prefix cache
  std::int64_t num_steps = 0;
  std::int64_t num_computed_tokens = 0;
  std::int64_t num_output_tokens = 0;
  BlockStats blocks;
};

}  // namespace graft::engine
