// The request of POST /v1/completions, parsed and validated. Pure: JSON in, values out.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/server/openai/sampling.h"

namespace graft::server::openai {

// Texts and token ids of one prompt, in order; mostly one part.
using PromptParts = std::vector<api::Prompt>;

struct CompletionRequest {
  std::string model = {};  // empty: the server's first model
  std::vector<PromptParts> prompts = {};
  bool add_special_tokens = true;  // those that begin a prompt, such as BOS
  std::string suffix = {};         // complete the text between prompt and suffix; empty: none
  Sampling sampling = {};
  bool is_stream = false;
  bool include_usage = false;
  bool echo = false;            // prepend the prompt to the output
  bool discard_output = false;  // max_tokens 0 with echo: return only the prompt
  std::optional<std::int64_t> prompt_logprobs = {};  // vLLM's; echo with logprobs has its own
  std::int64_t priority = 0;
  std::string cache_salt = {};  // the prefix cache is shared only between equal salts
};

// Throws ApiError 400 that names the field.
CompletionRequest read_completion_request(const OrderedJson& body);

// A string, a list of strings, a list of token ids or a list of token-id lists.
std::vector<api::Prompt> read_prompts(const Fields& fields, const char* name);
// The same, and lists that mix texts and token ids.
std::vector<PromptParts> read_mixed_prompts(const Fields& fields, const char* name);

}  // namespace graft::server::openai
