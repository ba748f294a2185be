// Splits the streamed output of a model into reasoning, content and tool calls.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/chat/reasoning.h"
#include "graft/server/generation/tool_calls.h"

namespace graft::server {

struct OutputFormat {
  bool in_thinking = false;       // the prompt ends inside the reasoning
  bool parse_tool_calls = false;  // the request has tools
  bool single_call = false;       // drop all output after the first call
  formats::ReasoningTags reasoning = {};
  formats::ToolCallFormat tool_calls = formats::ToolCallFormat::Any;
  OrderedJson tools = nullptr;  // of the request
};

struct OutputDelta {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolCall> calls = {};  // pieces; join_calls() collects whole calls

  void append(OutputDelta delta);
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

class OutputParser {
 public:
  // With `whole_calls`, calls come in one piece once they are complete, and those whose arguments
  // are not a JSON object, malformed or cut off, are lines at the end of the content.
  explicit OutputParser(const OutputFormat& format, bool whole_calls = false);

  // Text may be held back while it could be the start of a marker.
  OutputDelta feed(std::string_view text);
  // The end of the output: everything that was held back.
  OutputDelta finish();

  bool is_thinking() const { return reasoning_.is_thinking() || tools_.is_thinking(); }
  bool has_calls() const { return has_calls_; }

 private:
  void add(OutputDelta& out, ToolText part);
  // Adds the held calls to `out`, except for the last `num_kept`.
  void release_calls(OutputDelta& out, std::size_t num_kept);

  OutputFormat format_;
  bool whole_calls_ = false;
  chat::ReasoningSplitter reasoning_;
  ToolCallParser tools_;
  bool has_reasoning_ = false;
  bool has_calls_ = false;
  std::vector<ToolCall> held_calls_;  // of whole_calls_: the last one may not be complete
  std::string malformed_;
};

}  // namespace graft::server
