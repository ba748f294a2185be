// Pieces that OpenAI's answers share.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/server/generation/generation.h"

namespace graft::server::openai {

// What stands at the head of every answer and of every chunk of it.
struct Identity {
  std::string id = {};
  std::int64_t created = 0;  // seconds since 1970
  std::string model = {};
};
Identity new_identity(const std::string& prefix, const std::string& model);

// One event of a stream.
std::string sse(const OrderedJson& json);
inline constexpr std::string_view kSseEnd = "data: [DONE]\n\n";
// The head of an event stream, with comments that keep it alive.
http::StreamHead sse_head();

OrderedJson usage_json(const Usage& usage, std::int64_t num_reasoning);
// stop, length; others end in an error before this is asked.
std::string finish_text(const api::Finish& finish);
std::string sse_failure(const std::string& message);

// {token, logprob, bytes} of one alternative.
OrderedJson token_json(const tokenizer::Tokenizer& tokenizer, api::TokenId token, float logprob);
// The text a token stands for; special tokens as the vocabulary spells them.
std::string token_text(const tokenizer::Tokenizer& tokenizer, api::TokenId token);

}  // namespace graft::server::openai
