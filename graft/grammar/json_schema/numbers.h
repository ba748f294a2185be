// Sets of decimal numbers as automata. Every number has one text: no exponent, no final zero after
// the point, no -0.

#pragma once

#include <string>
#include <string_view>

#include "graft/base/text/json.h"
#include "graft/grammar/dfa.h"

namespace graft::grammar::json {

// The text of a JSON number. Throws Error for numbers with more than some hundred digits.
std::string decimal_text(const OrderedJson& number);

const Dfa& all_numbers();
const Dfa& all_integers();
Dfa numbers_from(const std::string& minimum, bool is_exclusive);
Dfa numbers_up_to(const std::string& maximum, bool is_exclusive);
// Throws Error when the divisor has too many digits, or is not positive.
Dfa multiples_of(const std::string& divisor);

}  // namespace graft::grammar::json
