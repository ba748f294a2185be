// The syntax of a tool call between its markers, by format. The functions return the calls of a
// body, none when it is not a call. Formats without types for arguments use the schemas of `tools`,
// those of the request.

#pragma once

#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/server/generation/tool_calls.h"

namespace graft::server {

std::vector<ToolCall> parse_hermes(std::string_view body, const OrderedJson& tools);
std::vector<ToolCall> parse_deepseek(std::string_view body, const OrderedJson& tools);
std::vector<ToolCall> parse_minimax(std::string_view body, const OrderedJson& tools);
std::vector<ToolCall> parse_kimi(std::string_view body, const OrderedJson& tools);
std::vector<ToolCall> parse_dsml(std::string_view body, const OrderedJson& tools);
std::vector<ToolCall> parse_harmony(std::string_view body, const OrderedJson& tools);
// A Python list of calls, or one or more JSON objects.
std::vector<ToolCall> parse_llama(std::string_view body, const OrderedJson& tools);

}  // namespace graft::server
