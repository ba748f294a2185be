// The text of a response, token by token.

#pragma once

#include <memory>
#include <span>
#include <string>

#include "graft/engine/sampling_params.h"
#include "graft/tokenizer/detokenizer.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {

// The tokenizer must outlive the detokenizer.
std::unique_ptr<tokenizer::Detokenizer> make_detokenizer(const tokenizer::Tokenizer& tokenizer,
                                                         const SamplingParams& params);

// Pushes the output of a sequence that goes on. Returns the text that was returned for it.
std::string replay_output(tokenizer::Detokenizer& detokenizer,
                          const SamplingParams& params,
                          std::span<const TokenId> output);

}  // namespace graft::engine
