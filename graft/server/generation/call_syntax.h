// Tool calls whose text must be complete before it can be parsed: objects with unusual members,
// Python's syntax, names alone. The functions return the calls of a body, none when it is not a
// call.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/server/generation/tool_calls.h"

namespace graft::server {

// A JSON object or a list of them, or the name of one of `tools`.
std::vector<ToolCall> parse_hermes(std::string_view body, const OrderedJson& tools);
// A call without arguments.
std::vector<ToolCall> parse_harmony(std::string_view body, const OrderedJson& tools);
// A Python list of calls, TOOL.call(…), or one or more JSON objects.
std::vector<ToolCall> parse_llama(std::string_view body, const OrderedJson& tools);

// Nine letters and digits for templates that allow no other (Mistral), else "call_…".
std::string new_call_id(bool is_short);

}  // namespace graft::server
