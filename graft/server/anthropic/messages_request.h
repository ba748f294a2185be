// The request of POST /v1/messages and /v1/messages/count_tokens, parsed and validated. Pure: JSON
// in, values out.

#pragma once

#include <string>

#include "graft/api/chat_format.h"
#include "graft/base/text/json.h"
#include "graft/server/openai/sampling.h"
#include "graft/server/tools/tool_choice.h"

namespace graft::server::anthropic {

struct MessagesRequest {
  std::string model = {};  // empty: the server's first model
  api::Conversation conversation = {};
  openai::Sampling sampling = {};
  bool is_stream = false;
  ToolChoice tool_choice = {};
  bool parse_tool_calls = false;
  bool single_call = false;
  bool shows_thinking = true;  // false: thinking blocks have no text
};

// Both throw ApiError 400 that names the field. Unknown fields are ignored. A last message of the
// assistant is continued.
MessagesRequest read_messages_request(const OrderedJson& body);
// Only what the prompt depends on: model and conversation.
MessagesRequest read_count_request(const OrderedJson& body);

}  // namespace graft::server::anthropic
