#include "graft/server/generation/output_parser.h"

#include <utility>

namespace graft::server {

OutputParser::OutputParser(const OutputFormat& format)
    : format_(format),
      reasoning_(format.in_thinking, format.reasoning),
      tools_(format.tool_calls, format.tools) {}

OutputDelta OutputParser::feed(std::string_view text) {
  chat::ResponseDelta part = reasoning_.feed(text);
  OutputDelta out = {.reasoning = std::move(part.reasoning)};
  if (format_.parse_tool_calls) {
    add(out, tools_.feed(part.content));
  } else {
    out.content = std::move(part.content);
  }
  return out;
}

OutputDelta OutputParser::finish() {
  chat::ResponseDelta part = reasoning_.finish();
  OutputDelta out = {.reasoning = std::move(part.reasoning)};
  if (!format_.parse_tool_calls) {
    out.content = std::move(part.content);
    return out;
  }
  add(out, tools_.feed(part.content));
  add(out, tools_.finish());
  return out;
}

void OutputParser::add(OutputDelta& out, ToolText part) {
  if (format_.single_call && has_calls()) return;
  out.content += part.text;
  for (ToolCall& call : part.calls) {
    if (format_.single_call && has_calls()) return;
    out.calls.push_back(std::move(call));
    ++num_calls_;
  }
}

}  // namespace graft::server
