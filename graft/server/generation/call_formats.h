// The formats of tool calls: markers, the head of a call, and what may follow its arguments.

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/chat/tool_format.h"
#include "graft/server/generation/call_heads.h"
#include "graft/server/generation/tool_calls.h"

namespace graft::server {

struct CallFormat {
  chat::ToolCallMarkers markers;
  std::span<const std::string_view> ignored;  // markers around a list of calls, dropped
  CallHead (*head)(std::string_view text);
  // A body that does not begin with a head; empty: not a call. Null: none.
  std::vector<ToolCall> (*parse)(std::string_view body, const OrderedJson& tools);
  std::string_view tail;    // characters that may follow the arguments, besides blanks
  bool has_tokens = false;  // the markers are special tokens: they also end a string
  bool has_short_ids = false;
};

// All formats for Any.
std::span<const CallFormat> call_formats(formats::ToolCallFormat format);

// The markers, which vocabularies may have as special tokens that are not printed by default.
std::vector<std::string_view> tool_marks(formats::ToolCallFormat format);

// {"name": …, "arguments": …} as the whole response.
const CallFormat& bare_json_format();

}  // namespace graft::server
