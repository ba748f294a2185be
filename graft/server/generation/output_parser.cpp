#include "graft/server/generation/output_parser.h"

#include <utility>

namespace graft::server {

void OutputDelta::append(OutputDelta delta) {
  reasoning += delta.reasoning;
  content += delta.content;
  join_calls(calls, std::move(delta.calls));
}

OutputParser::OutputParser(const OutputFormat& format)
    : format_(format),
      reasoning_(format.in_thinking, format.reasoning),
      tools_({.format = format.tool_calls,
              .tools = format.tools,
              .single_call = format.single_call,
              .reasoning = format.reasoning}) {}

OutputDelta OutputParser::feed(std::string_view text) {
  chat::ResponseDelta part = reasoning_.feed(text);
  OutputDelta out = {.reasoning = std::move(part.reasoning)};
  has_reasoning_ = has_reasoning_ || !out.reasoning.empty();
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
  // Blocks of reasoning are separated by a blank line.
  if (part.is_first_reasoning && has_reasoning_) out.reasoning += "\n\n";
  has_reasoning_ = has_reasoning_ || !part.reasoning.empty();
  has_calls_ = has_calls_ || !part.calls.empty();
  out.append({.reasoning = std::move(part.reasoning),
              .content = std::move(part.text),
              .calls = std::move(part.calls)});
}

}  // namespace graft::server
