// Validates chat messages from clients and converts them to the form that templates expect. Errors
// begin with the path: "messages[2].content: …".

#pragma once

#include "graft/base/text/json.h"

namespace graft::chat {

// Checks roles, text or content parts, tool calls, tool results and reasoning. Throws Error, also
// for parts other than text: a template would write the mark of an image that the model never sees.
void check_messages(const OrderedJson& messages);
// `tools` is a list of tool definitions or null. Throws Error.
void check_tools(const OrderedJson& tools);

// Joins content parts into one string, one line per part, for templates that do not handle parts.
OrderedJson flatten_content(OrderedJson messages);

// Parses the arguments of tool calls into objects. Clients send them as JSON text; templates print
// them with tojson, which would quote the text again.
OrderedJson parse_tool_arguments(OrderedJson messages);

// For templates of the Harmony format: an assistant's reasoning is `thinking`, which clients send
// as reasoning_content, and a message without content has no such key. A message with tool calls
// has content or reasoning, not both: the content stays.
OrderedJson harmony_messages(OrderedJson messages);

}  // namespace graft::chat
