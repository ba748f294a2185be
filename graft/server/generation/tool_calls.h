// Tool calls in an answer as it streams: what models write between marks becomes calls, the rest
// stays text. Two forms are read:
//   Hermes, Qwen:  <tool_call>{"name": "f", "arguments": {…}}</tool_call>
//   DeepSeek:      <｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>, and V3's older
//   writing
// Nothing is lost: what cannot be read as a call is text, marks and all.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::server {

struct ToolCall {
  std::string id;  // ours
  std::string name;
  std::string arguments;  // an object, as JSON text
};

struct ToolText {
  std::string text;
  std::vector<ToolCall> calls;  // after the text
};

class ToolCallParser {
 public:
  // What became certain. Text before a call loses its blank end.
  ToolText feed(std::string_view text);
  // The answer has ended; a call that lacks only its closing mark counts.
  ToolText finish();

 private:
  struct Form;
  struct Mark {
    std::size_t place = std::string::npos;
    std::string_view text = {};
    const Form* form = nullptr;  // null: to be left out
  };
  static std::span<const Form> forms();
  Mark first_mark() const;
  std::size_t num_certain() const;

  bool advance(ToolText& out, bool at_end);
  bool advance_text(ToolText& out, bool at_end);
  bool advance_call(ToolText& out, bool at_end);

  const Form* open_ = nullptr;  // inside a call
  bool after_call_ = false;     // blanks that follow are not text
  std::string held_;
};

// The marks, for vocabularies that take them for special and would not show them.
std::span<const std::string_view> tool_marks();

}  // namespace graft::server
