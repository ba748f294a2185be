// Grammars in GBNF, the notation of llama.cpp, with additions:
//
//   %json {…}         a value of that JSON schema
//   %special "…"      a text in which the names of special tokens are these tokens, where the
//                     vocabulary has them
//   %without "…"      any text in which the regular expression is found nowhere
//   %arguments {…}    the arguments of a tool call (json_schema/arguments.h)
//
//   root  ::= %special "<call>" %json {"type": "object"} "</call>" | [^<]{1,20} digit+
//   digit ::= [0-9]  # a comment

#pragma once

#include <span>
#include <string_view>

#include "graft/grammar/expression.h"
#include "graft/grammar/special_tokens.h"

namespace graft::grammar {

// Adds the rules of the text and returns `root`. Throws Error with the line.
RuleId add_gbnf(RuleSet& rules, std::string_view text, std::span<const SpecialToken> tokens = {});

}  // namespace graft::grammar
