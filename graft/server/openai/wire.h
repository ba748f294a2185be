// Wire-format helpers shared by OpenAI's responses.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/server/generation/generation.h"
#include "graft/server/generation/tool_calls.h"

namespace graft::server::openai {

// The fields at the start of every response and of every chunk of a stream.
struct Identity {
  std::string id = {};
  std::int64_t created = 0;  // Unix time in seconds
  std::string model = {};
};
// `prefix` and 32 random hexadecimal digits.
std::string new_id(std::string_view prefix);
Identity new_identity(const std::string& prefix, const std::string& model);

// One server-sent event.
std::string sse(const OrderedJson& json);
inline constexpr std::string_view kSseEnd = "data: [DONE]\n\n";
// The head of an event stream; a comment line is its keep-alive.
http::StreamHead sse_head();

// Changes with the program, which may change the output of a seed.
std::string system_fingerprint();
// The response of a count of prompt tokens.
std::string input_tokens_body(std::size_t count);

OrderedJson usage_json(const Usage& usage, std::int64_t num_reasoning);
// A call in a message.
OrderedJson call_json(const ToolCall& call);
// "stop" or "length"; sequences with other reasons end with an error instead.
std::string finish_text(const api::Finish& finish);
std::string sse_error(const std::string& message);

// {token, logprob, bytes} of one token.
OrderedJson token_json(const tokenizer::Tokenizer& tokenizer, api::TokenId token, float logprob);
// vLLM's prompt_logprobs as text of a JSON list: null for the first token of the prompt, then
// {id: {logprob, rank, decoded_token}} of each token and the `num_top` most likely ones.
std::string prompt_logprobs_text(const tokenizer::Tokenizer& tokenizer,
                                 const std::vector<api::TokenLogprobs>& tokens,
                                 std::int64_t num_top);
// The bytes of a token; for special tokens their name in the vocabulary.
std::string token_text(const tokenizer::Tokenizer& tokenizer, api::TokenId token);

}  // namespace graft::server::openai
