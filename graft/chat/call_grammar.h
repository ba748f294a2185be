// Grammars of responses with tool calls, as texts in GBNF with the additions of grammar/gbnf.h:
// from the form in which a model family writes calls and the schemas of the tools.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/chat/call_template.h"
#include "graft/formats/chat_traits.h"

namespace graft::chat {

struct CallGrammar {
  enum class Thinking : std::uint8_t {
    None,
    Optional,  // the response may begin with reasoning
    Open,      // the prompt ends inside the reasoning
  };

  formats::ToolCallFormat format = formats::ToolCallFormat::Any;
  CallTemplate form = {};
  formats::ReasoningTags reasoning = {};
  Thinking thinking = Thinking::None;
  // True: the response is one or more calls, whose arguments match the schemas of their tools.
  // False: text with or without calls; the arguments of tools with `strict` match their schemas.
  bool is_forced = true;
  bool is_single = false;               // at most one call
  std::vector<std::string> names = {};  // of tools that may be called; empty: all
};

// Throws Error that names a tool whose name cannot be written in a call.
std::string call_grammar(const CallGrammar& options, const OrderedJson& tools);

// Whether a tool of the list has `strict`: true.
bool has_strict_tool(const OrderedJson& tools);

}  // namespace graft::chat
