// Chat messages as clients send them: checked before a template sees them, and brought into the
// form that templates expect. Errors name the place: "messages[2].content: …".

#pragma once

#include "graft/base/text/json.h"

namespace graft::chat {

// A list of messages: roles, text or content parts, tool calls, tool results, reasoning.
void check_messages(const OrderedJson& messages);
// A list of tool definitions, or null.
void check_tools(const OrderedJson& tools);

// Content parts to one string, a line each; for templates that do not read parts. Parts that are
// no text (images, sound) are an Error.
OrderedJson flatten_content(OrderedJson messages);

// Arguments of tool calls to objects. Clients send them as JSON text; templates print them with
// tojson, which would quote the text once more.
OrderedJson parse_tool_arguments(OrderedJson messages);

}  // namespace graft::chat
