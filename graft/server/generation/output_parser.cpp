#include "graft/server/generation/output_parser.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

bool is_object(const std::string& text) {
  try {
    return parse_ordered_json(text, "call").is_object();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void OutputDelta::append(OutputDelta delta) {
  reasoning += delta.reasoning;
  content += delta.content;
  join_calls(calls, std::move(delta.calls));
}

OutputParser::OutputParser(const OutputFormat& format, bool whole_calls)
    : format_(format),
      whole_calls_(whole_calls),
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
  release_calls(out, 0);
  out.content += malformed_;
  return out;
}

void OutputParser::add(OutputDelta& out, ToolText part) {
  // Blocks of reasoning are separated by a blank line.
  if (part.is_first_reasoning && has_reasoning_) out.reasoning += "\n\n";
  has_reasoning_ = has_reasoning_ || !part.reasoning.empty();
  has_calls_ = has_calls_ || (!part.calls.empty() && !whole_calls_);
  join_calls(whole_calls_ ? held_calls_ : out.calls, std::move(part.calls));
  release_calls(out, 1);
  out.append({.reasoning = std::move(part.reasoning), .content = std::move(part.text)});
}

void OutputParser::release_calls(OutputDelta& out, std::size_t num_kept) {
  while (held_calls_.size() > num_kept) {
    ToolCall call = std::move(held_calls_.front());
    held_calls_.erase(held_calls_.begin());
    if (is_object(call.arguments)) {
      has_calls_ = true;
      out.calls.push_back(std::move(call));
    } else {
      malformed_ +=
          str("\n", R"({"name":)", ordered_text(call.name), R"(,"arguments":)", call.arguments);
    }
  }
}

}  // namespace graft::server
