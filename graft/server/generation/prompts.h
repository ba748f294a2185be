// Helpers that the handlers of all APIs share for prompts and sampling parameters.

#pragma once

#include <string_view>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/server/generation/output_parser.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

// Throws ApiError 400, before tokenizing, when a text of this size cannot fit into the context.
void check_fits(LoadedModel& model, std::string_view text);

// The tokens of a prompt. Throws ApiError for a text when the model has no tokenizer or the text
// cannot fit; with `truncate` the caller cuts the tokens, and only as much of the text is tokenized
// as fills the context.
std::vector<api::TokenId> encode_prompt(LoadedModel& model,
                                        const api::Prompt& prompt,
                                        bool truncate = false);

// The prompt of a conversation. Throws Error for invalid messages, and like encode_prompt().
api::ChatPrompt chat_prompt(LoadedModel& model, const api::Conversation& conversation);

// How the output of the prompt is parsed.
OutputFormat output_format(const api::ChatPrompt& prompt,
                           const OrderedJson& tools,
                           bool parse_tool_calls,
                           bool single_call = false);

// In some vocabularies the markers of tool calls, in Harmony also those of the reasoning, are
// special tokens, which detokenization skips by default. Keeps them in the output so that it can be
// parsed.
void show_markers(const tokenizer::Tokenizer& tokenizer,
                  const api::ChatPrompt& prompt,
                  bool parse_tool_calls,
                  api::SamplingParams& params);

}  // namespace graft::server
