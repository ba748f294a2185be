// An answer as it streams, split into what the model thought, what it says and which tools it
// calls.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/chat/reasoning.h"
#include "graft/server/generation/tool_calls.h"

namespace graft::server {

struct AnswerFormat {
  bool in_thinking = false;    // the prompt ends with <think>
  bool reads_tools = false;    // tools were offered: calls are read
  bool only_one_call = false;  // what follows the first call is left out
};

struct AnswerDelta {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolCall> calls = {};

  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

class AnswerParser {
 public:
  explicit AnswerParser(const AnswerFormat& format);

  AnswerDelta feed(std::string_view text);
  AnswerDelta finish();

  bool is_thinking() const { return reasoning_.is_thinking(); }
  bool has_calls() const { return num_calls_ > 0; }

 private:
  void add(AnswerDelta& out, ToolText part);

  AnswerFormat format_;
  chat::ReasoningSplitter reasoning_;
  ToolCallParser tools_;
  std::size_t num_calls_ = 0;
};

}  // namespace graft::server
