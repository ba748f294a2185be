// The parts of JSON texts as expressions.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/grammar/dfa.h"
#include "graft/grammar/expression.h"

namespace graft::grammar::json {

Expr blank();  // after commas, colons and brackets; may be empty
// Of a string, with all escapes; `more` is allowed only as an escape.
Expr free_character(std::vector<CodeRange> more = {});
Expr free_string();                          // any string
Expr free_number();                          // any number
Expr free_integer();                         // without fraction and exponent
Expr quoted_string(std::string_view value);  // a string in its one form
Expr quoted_string(const Dfa& values);       // strings of these values, each in its one form
const Dfa& all_strings();                    // values: valid UTF-8

Expr boolean(bool value, bool is_python);  // Python may also write True and False
Expr null_value(bool is_python);           // and None

// The texts in quotes that do not contain "</", which may end a value in XML-like formats; it can
// be written as "<\/".
Expr without_tags(const Expr& quoted);

// The rule of any JSON value with these strings.
RuleId add_any_value(RuleSet& rules, const Expr& string_text, bool is_python);

}  // namespace graft::grammar::json
