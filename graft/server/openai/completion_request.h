// POST /v1/completions: what was asked. Pure: JSON in, checked values out.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/server/openai/sampling.h"

namespace graft::server::openai {

struct CompletionRequest {
  std::string model = {};  // empty: the first
  std::vector<api::Prompt> prompts = {};
  Sampling sampling = {};
  bool is_stream = false;
  bool include_usage = false;
  bool echo = false;          // the prompt stands before the answer
  bool drops_output = false;  // max_tokens 0: only the prompt was asked for
  std::int64_t priority = 0;
  std::string cache_salt = {};  // prefixes are shared with requests of the same only
};

// Throws ApiError 400 that names the field.
CompletionRequest read_completion_request(const OrderedJson& body);

// A text, a list of texts, a list of tokens or a list of such lists.
std::vector<api::Prompt> read_prompts(const Fields& fields, const char* name);

}  // namespace graft::server::openai
