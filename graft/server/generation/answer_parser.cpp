#include "graft/server/generation/answer_parser.h"

#include <utility>

namespace graft::server {

AnswerParser::AnswerParser(const AnswerFormat& format)
    : format_(format), reasoning_(format.in_thinking) {}

AnswerDelta AnswerParser::feed(std::string_view text) {
  chat::AnswerPart part = reasoning_.feed(text);
  AnswerDelta out = {.reasoning = std::move(part.reasoning)};
  if (format_.reads_tools) {
    add(out, tools_.feed(part.content));
  } else {
    out.content = std::move(part.content);
  }
  return out;
}

AnswerDelta AnswerParser::finish() {
  chat::AnswerPart part = reasoning_.finish();
  AnswerDelta out = {.reasoning = std::move(part.reasoning)};
  if (!format_.reads_tools) {
    out.content = std::move(part.content);
    return out;
  }
  add(out, tools_.feed(part.content));
  add(out, tools_.finish());
  return out;
}

void AnswerParser::add(AnswerDelta& out, ToolText part) {
  if (format_.only_one_call && has_calls()) return;
  out.content += part.text;
  for (ToolCall& call : part.calls) {
    if (format_.only_one_call && has_calls()) return;
    out.calls.push_back(std::move(call));
    ++num_calls_;
  }
}

}  // namespace graft::server
