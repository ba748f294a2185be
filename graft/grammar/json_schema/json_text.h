// The parts of JSON texts as expressions.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"
#include "graft/grammar/dfa.h"
#include "graft/grammar/expression.h"

namespace graft::grammar::json {

Expr blank();                                // after commas, colons and brackets; may be empty
Expr free_character();                       // of a string, with all escapes
Expr free_string();                          // any string
Expr free_number();                          // any number
Expr free_integer();                         // without fraction and exponent
Expr quoted_string(std::string_view value);  // a string in its one form
Expr quoted_string(const Dfa& values);       // strings of these values, each in its one form
const Dfa& all_strings();                    // values: valid UTF-8

// The rule of any JSON value.
RuleId add_any_value(RuleSet& rules);

}  // namespace graft::grammar::json
