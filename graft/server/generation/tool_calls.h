// Parses tool calls in streamed text: the text between a format's markers becomes a call, the rest
// stays text. The format is that of the chat template or the model family (ChatPrompt).
//
// A call arrives in pieces. Its text is held back until the head is certain: the name is known, and
// the '{' of the arguments or the first whole parameter was read. Until then a malformed call stays
// text, with its markers. After that it is a call: what cannot be parsed, or is cut off, is
// appended to the arguments as it is.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/chat/reasoning.h"
#include "graft/chat/tool_format.h"
#include "graft/server/generation/call_scanner.h"

namespace graft::server {

// A tool call, or a piece of one. The first piece has the id and the name; later pieces have only
// the next characters of the arguments.
struct ToolCall {
  std::size_t index = 0;  // of the call in the response
  std::string id = {};    // the model's own (Kimi, Mistral), else generated here: "call_…"
  std::string name = {};
  std::string arguments = {};  // the text of a JSON object
};

// Appends pieces to the calls they belong to.
void join_calls(std::vector<ToolCall>& calls, std::vector<ToolCall> pieces);

// The arguments of a call in an earlier message as an object, which templates print. What a model
// wrote instead, cut off or not JSON, must not make the conversation end: {"unparsed": text}.
OrderedJson call_arguments(const std::string& text);

struct ToolText {
  std::string reasoning;  // between calls
  std::string text;
  std::vector<ToolCall> calls;      // after the text
  bool is_first_reasoning = false;  // no reasoning stood between calls before
};

struct ToolCallOptions {
  formats::ToolCallFormat format = formats::ToolCallFormat::Any;
  // Those of the request: formats without types for arguments use their schemas.
  OrderedJson tools = nullptr;
  bool single_call = false;  // drop all output after the first call
  // Reasoning may stand between calls.
  formats::ReasoningTags reasoning = {};
};

struct CallFormat;
struct CallHead;
struct ParameterSyntax;

class ToolCallParser {
 public:
  explicit ToolCallParser(ToolCallOptions options = {});

  // Returns what no later text can change. Trailing blanks before a call are dropped.
  ToolText feed(std::string_view text);
  // The end of the text; a call without its closing marker counts.
  ToolText finish();

  bool is_thinking() const { return state_ == State::Thinking; }

 private:
  enum class State : std::uint8_t {
    Start,  // the whole response may be calls without a marker
    Text,
    Head,        // after the opening marker
    Arguments,   // inside the JSON object
    Parameters,  // between two parameters
    Broken,      // inside arguments that cannot be parsed
    Tail,        // between the arguments and the closing marker
    Thinking,
    Done,  // all further output is dropped
  };
  struct Marker {
    std::size_t position = std::string::npos;
    std::string_view text = {};
    const CallFormat* format = nullptr;  // null: a marker without content, dropped
  };
  Marker first_marker() const;
  std::size_t num_final_bytes() const;
  std::string_view close_marker() const;
  bool is_declared(std::string_view name) const;

  bool advance(ToolText& out, bool at_end);
  bool advance_start(ToolText& out, bool at_end);
  bool advance_text(ToolText& out, bool at_end);
  bool advance_head(ToolText& out, bool at_end);
  bool advance_whole(ToolText& out, bool at_end);
  bool advance_arguments(ToolText& out, bool at_end);
  bool advance_parameters(ToolText& out, bool at_end);
  bool advance_broken(ToolText& out, bool at_end);
  bool advance_tail(ToolText& out, bool at_end);
  bool advance_thinking(ToolText& out, bool at_end);

  bool begin_parameters(ToolText& out, const CallHead& head, bool at_end);
  void begin_call(ToolText& out, const CallHead& head);
  void add_arguments(ToolText& out, std::string_view text);
  void end_call();

  ToolCallOptions options_;
  State state_ = State::Text;
  const CallFormat* open_ = nullptr;  // of the current call
  const ParameterSyntax* syntax_ = nullptr;
  ArgumentsScanner scanner_;
  chat::ReasoningSplitter thinking_;
  bool is_new_reasoning_ = false;  // at the start of a block
  bool has_reasoning_ = false;
  bool after_call_ = false;  // blanks that follow are dropped
  std::size_t num_calls_ = 0;
  std::string name_;               // of the current call
  std::vector<std::string> keys_;  // its parameters so far
  std::string held_;
};

}  // namespace graft::server
