// Requests to the engine. The updates it returns are graft::Update.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graft/engine/adapters.h"
#include "graft/engine/images/image_tokens.h"
#include "graft/engine/sampling_params.h"
#include "graft/engine/sequence.h"
#include "graft/llm.h"

namespace graft::engine {

using graft::EngineStats;
using graft::Pooling;
using graft::Update;

struct Request {
  RequestId id = 0;  // 0: assigned by the engine; otherwise must be unique
  std::vector<TokenId> prompt = {};
  SamplingParams params = {};
  std::uint64_t client = 0;      // SubmitOptions::client
  std::int64_t priority = 0;     // lower runs first, within the client
  std::uint64_t cache_salt = 0;  // SubmitOptions::cache_salt
  // Computes the embedding of the prompt, the only update, instead of output tokens.
  std::optional<Pooling> pooling = {};
  AdapterRef adapter = {};  // of Engine::adapters(); null: none
  std::vector<PromptImage> images = {};  // ascending by position
};

}  // namespace graft::engine
