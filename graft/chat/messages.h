// Validates chat messages from clients and converts them to the form that templates expect. Errors
// begin with the path: "messages[2].content: …".

#pragma once

#include <string>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::chat {

// Checks roles, text or content parts, tool calls, tool results and reasoning. Throws Error, also
// for parts other than text and images ({"type": "image_url", "image_url": {"url": …}}).
void check_messages(const OrderedJson& messages);
// `tools` is a list of tool definitions or null. Throws Error.
void check_tools(const OrderedJson& tools);

// Images of the messages, in order. Their parts become {"type": "image"}, as templates expect them.
struct ImagePart {
  std::string where;  // "messages[2].content[1]"
  std::string url;
};
std::vector<ImagePart> take_images(OrderedJson& messages);
// Makes a text part of the given text from every image part, for templates that do not write
// images.
OrderedJson write_images(OrderedJson messages, const std::string& text);
// Makes a list of one part from text content, for templates that read only parts.
OrderedJson wrap_texts(OrderedJson messages);

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
