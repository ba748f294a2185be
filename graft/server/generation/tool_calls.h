// Parses tool calls in streamed text: the text between a format's markers becomes a call, the rest
// stays text. Two formats:
//   Hermes, Qwen:  <tool_call>{"name": "f", "arguments": {…}}</tool_call>
//   DeepSeek:      <｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>, and V3's older form
// The format belongs to the chat template, not to the model family: both are always recognized.
// A call that cannot be parsed stays text, with its markers.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::server {

struct ToolCall {
  std::string id;  // generated here: "call_…"
  std::string name;
  std::string arguments;  // a JSON object as text
};

struct ToolText {
  std::string text;
  std::vector<ToolCall> calls;  // after the text
};

class ToolCallParser {
 public:
  // Returns what no later text can change. Trailing blanks before a call are dropped.
  ToolText feed(std::string_view text);
  // The end of the text; a call without its closing marker counts.
  ToolText finish();

 private:
  struct Format;
  struct Marker {
    std::size_t position = std::string::npos;
    std::string_view text = {};
    const Format* format = nullptr;  // null: a marker without content, dropped
  };
  static std::span<const Format> formats();
  Marker first_marker() const;
  std::size_t num_final_bytes() const;

  bool advance(ToolText& out, bool at_end);
  bool advance_text(ToolText& out, bool at_end);
  bool advance_call(ToolText& out, bool at_end);

  const Format* open_ = nullptr;  // inside a call of this format
  bool after_call_ = false;       // blanks that follow are dropped
  std::string held_;
};

// The markers, which vocabularies may have as special tokens that are not printed by default.
std::span<const std::string_view> tool_marks();

}  // namespace graft::server
