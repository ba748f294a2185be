// Parses tool calls in streamed text: the text between a format's markers becomes a call, the rest
// stays text. The format is that of the chat template or the model family (ChatPrompt). A call that
// cannot be parsed stays text, with its markers.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/chat/tool_format.h"

namespace graft::server {

struct ToolCall {
  std::string id;  // the model's own (Kimi), else generated here: "call_…"
  std::string name;
  std::string arguments;  // a JSON object as text
};

struct ToolText {
  std::string text;
  std::vector<ToolCall> calls;  // after the text
};

class ToolCallParser {
 public:
  // `tools` are those of the request: formats without types for arguments use their schemas.
  explicit ToolCallParser(formats::ToolCallFormat format = formats::ToolCallFormat::Any,
                          OrderedJson tools = nullptr)
      : format_(format), tools_(std::move(tools)) {}

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
  std::span<const Format> formats() const;
  Marker first_marker() const;
  std::size_t num_final_bytes() const;

  bool advance(ToolText& out, bool at_end);
  bool advance_text(ToolText& out, bool at_end);
  bool advance_whole(ToolText& out, bool at_end);
  bool advance_call(ToolText& out, bool at_end);

  formats::ToolCallFormat format_;
  OrderedJson tools_;
  const Format* open_ = nullptr;  // inside a call of this format
  bool after_call_ = false;       // blanks that follow are dropped
  bool is_at_start_ = true;       // nothing was returned yet
  std::string held_;
};

// The markers, which vocabularies may have as special tokens that are not printed by default.
std::vector<std::string_view> tool_marks(formats::ToolCallFormat format);

}  // namespace graft::server
