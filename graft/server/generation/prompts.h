// Small things that handlers of every API do with a model's tokens.

#pragma once

#include <vector>

#include "graft/api/llm.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

// The tokens of a prompt. Throws ApiError when the model has no tokenizer for a text.
std::vector<api::TokenId> tokens_of(const LoadedModel& model, const api::Prompt& prompt);

// Some vocabularies take the marks around tool calls for special tokens, which answers do not show.
// They must be shown to be read.
void show_tool_marks(const tokenizer::Tokenizer& tokenizer, api::SamplingParams& params);

}  // namespace graft::server
