// The values of "format" as expressions over the string.

#pragma once

#include <optional>
#include <string_view>

#include "graft/grammar/dfa.h"

namespace graft::grammar::json {

// Null: an unknown format.
const Dfa* find_format(std::string_view name);
// Names by which zod calls a pattern that stands beside them: the pattern says all.
bool names_a_pattern(std::string_view name);

}  // namespace graft::grammar::json
