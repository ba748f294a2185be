// The request of POST /v1/chat/completions, parsed and validated. Pure: JSON in, values out.

#pragma once

#include <cstdint>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/base/text/json.h"
#include "graft/server/openai/sampling.h"
#include "graft/server/tools/tool_choice.h"

namespace graft::server::openai {

struct ChatRequest {
  std::string model = {};  // empty: the server's first model
  api::Conversation conversation = {};
  Sampling sampling = {};
  bool is_stream = false;
  bool include_usage = false;
  bool wants_logprobs = false;
  ToolChoice tool_choice = {};
  bool parse_tool_calls = false;
  bool single_call = false;
  std::int64_t priority = 0;
  std::string cache_salt = {};  // the prefix cache is shared only between equal salts
};

// Throws ApiError 400 that names the field. Messages and tools are validated by api::ChatFormat.
ChatRequest read_chat_request(const OrderedJson& body);

// Sets thinking and the template variable reasoning_effort; empty: neither.
void set_effort(api::Conversation& conversation, const std::string& effort);
// Sets the template variable verbosity from the field (low, medium, high).
void set_verbosity(const Fields& fields, api::Conversation& conversation);

// stream_options.include_usage
bool read_include_usage(const Fields& fields, bool is_stream);

}  // namespace graft::server::openai
