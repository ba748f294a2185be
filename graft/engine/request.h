// What goes into the engine and what comes out of it.

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
  RequestId id = 0;  // 0: the engine chooses; otherwise never used before
  std::vector<TokenId> prompt = {};
  SamplingParams params = {};
  std::int64_t priority = 0;  // lower runs first
  // Prefixes in the cache are shared among requests of the same salt only: who waits less for a
  // prompt that somebody else has asked learns that it was asked. 0 is a salt like others.
  std::uint64_t cache_salt = 0;
};

// What a sequence gained in one step, or how it ended. Every sequence of a request ends exactly
// once.
struct Update {
  SequenceId id = {};
  std::vector<TokenId> tokens = {};          // new ones, an end token included
  std::string text = {};                     // that became certain; empty without a tokenizer
  std::vector<TokenLogprobs> logprobs = {};  // of `tokens`, when asked for
  std::optional<Finish> finish = {};
  // Of the sequence, up to here.
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;
  std::int64_t num_output = 0;
  // Of the sequence, with the last update.
  std::vector<TokenLogprobs> prompt_logprobs = {};
  Clock::time_point arrived = {};
  std::optional<Clock::time_point> first_scheduled = {};
  std::optional<Clock::time_point> first_token = {};
};

// How the hidden states of a text become one vector.
enum class Pooling : std::uint8_t { Mean, Last };

struct EngineStats {
  std::int64_t num_running = 0;
  std::int64_t num_waiting = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_queried_tokens = 0;
  std::int64_t num_hit_tokens = 0;
  std::int64_t num_steps = 0;
  std::int64_t num_computed_tokens = 0;
  std::int64_t num_output_tokens = 0;
  BlockStats blocks;
};

}  // namespace graft::engine
