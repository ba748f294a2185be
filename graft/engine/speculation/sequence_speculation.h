// The part of a sequence that guesses its next tokens.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graft/engine/speculation/acceptance.h"
#include "graft/engine/speculation/ngram_index.h"
#include "graft/sampling_params.h"

namespace graft::engine {

struct SequenceSpeculation {
  Speculation config;
  NgramIndex ngrams = {};  // of the first tokens
  // Whether the next step may verify tokens; its tokens must be known before it is scheduled.
  bool is_active = true;
  std::int64_t num_draft_tokens = 0;  // verified so far
  std::int64_t num_accepted_tokens = 0;

  // Of automatic speculation: the last guess, made for the tokens from `guess_begin` on.
  std::vector<TokenId> guess = {};
  std::size_t guess_begin = 0;
  Acceptance acceptance = {};
};

}  // namespace graft::engine
