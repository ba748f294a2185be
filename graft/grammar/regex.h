// Regular expressions as expressions: the syntax that ECMAScript, Python and Rust share. Without
// what is not regular or needs context: lookaround, backreferences, \b, flags, \p.
//
// Classes are those of ECMAScript: \d and \w are ASCII, \s has the blanks of Unicode, and the dot
// matches all but line terminators.

#pragma once

#include <string_view>

#include "graft/grammar/expression.h"

namespace graft::grammar {

// The whole text must match; ^ and $ match at its ends. Throws Error such as "at 7: lookaround is
// not supported"; the offset is in bytes, from 0.
Expr regex_match(std::string_view pattern);
// The pattern must match somewhere in the text, as in JSON schemas.
Expr regex_search(std::string_view pattern);

}  // namespace graft::grammar
