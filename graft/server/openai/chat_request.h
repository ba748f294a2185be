// POST /v1/chat/completions: what was asked. Pure: JSON in, checked values out.

#pragma once

#include <cstdint>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/base/text/json.h"
#include "graft/server/openai/sampling.h"

namespace graft::server::openai {

struct ChatRequest {
  std::string model = {};  // empty: the first
  api::Conversation conversation = {};
  Sampling sampling = {};
  bool is_stream = false;
  bool include_usage = false;
  bool wants_logprobs = false;
  bool reads_tools = false;
  bool only_one_call = false;
  std::int64_t priority = 0;
  std::string cache_salt = {};  // prefixes are shared with requests of the same only
};

// Throws ApiError 400 that names the field. Messages and tools are checked by the template's side.
ChatRequest read_chat_request(const OrderedJson& body);

// stream_options.include_usage
bool wants_usage(const Fields& fields, bool is_stream);

}  // namespace graft::server::openai
