// Resolves the engine configuration for a model and a machine.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/llm.h"

namespace graft::engine {

using graft::EngineConfig;

// Tokens of a step: enough for the full speed of prefill, with weights that are where they are
// used.
inline constexpr std::int64_t kBatchedTokens = 2048;

// Facts about the model and the machine that resolve() needs.
struct EngineLimits {
  std::int64_t model_context = 0;     // context length of the model in tokens; 0: unknown
  std::int64_t block_tokens = 16;     // block size of the current cache
  std::size_t bytes_per_token = 0;    // KV cache bytes over all layers
  std::uint64_t available_bytes = 0;  // memory that the KV cache may use
  std::int64_t batched_tokens = kBatchedTokens;  // for max_num_batched_tokens 0
};

// Replaces 0 and -1 by actual values. Throws one Error that lists everything invalid.
EngineConfig resolve(EngineConfig config, const EngineLimits& limits);

}  // namespace graft::engine
