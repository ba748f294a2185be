// Grammars in GBNF, the notation of llama.cpp. One addition: `%json {…}` is a value of that JSON
// schema.
//
//   root  ::= "<call>" %json {"type": "object"} "</call>" | [^<]{1,20} digit+
//   digit ::= [0-9]  # a comment

#pragma once

#include <string_view>

#include "graft/grammar/expression.h"

namespace graft::grammar {

// Adds the rules of the text and returns `root`. Throws Error with the line.
RuleId add_gbnf(RuleSet& rules, std::string_view text);

}  // namespace graft::grammar
