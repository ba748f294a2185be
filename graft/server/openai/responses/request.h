// The request of POST /v1/responses, parsed and validated. Pure: JSON in, values out.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/base/text/json.h"
#include "graft/server/openai/responses/items.h"
#include "graft/server/openai/sampling.h"
#include "graft/server/tools/tool_choice.h"

namespace graft::server::openai::responses {

struct ResponsesRequest {
  std::string model = {};                    // empty: the server's first model
  OrderedJson items = OrderedJson::array();  // read_items()
  std::string instructions = {};
  std::string previous_response_id = {};  // empty: none
  // Without messages: these need the previous response.
  api::Conversation conversation = {};
  std::map<std::string, QualifiedName> namespaces = {};  // read_namespaces()
  Sampling sampling = {};
  bool is_stream = false;
  ToolChoice tool_choice = {};
  bool parse_tool_calls = false;
  bool single_call = false;
  bool wants_logprobs = false;
  bool wants_summary = false;    // the reasoning is returned as its summary
  bool wants_encrypted = false;  // reasoning items carry encrypted_content
  bool truncates = false;        // truncation: auto
  bool is_stored = true;
  std::int64_t priority = 0;
  std::string cache_salt = {};
  OrderedJson echo = {};  // fields of the request that the response repeats
};

// Throws ApiError 400 that names the field. Unknown fields are ignored.
ResponsesRequest read_responses_request(const OrderedJson& body);

}  // namespace graft::server::openai::responses
