// Helpers that the handlers of all APIs share for prompts and sampling parameters.

#pragma once

#include <vector>

#include "graft/api/llm.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

// The tokens of a prompt. Throws ApiError for a text when the model has no tokenizer.
std::vector<api::TokenId> encode_prompt(const LoadedModel& model, const api::Prompt& prompt);

// In some vocabularies the tool-call markers are special tokens, which detokenization skips by
// default. Keeps them in the output so that tool calls can be parsed.
void show_tool_call_markers(const tokenizer::Tokenizer& tokenizer,
                            formats::ToolCallFormat format,
                            api::SamplingParams& params);

}  // namespace graft::server
