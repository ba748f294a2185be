// The strings of "pattern": a regular expression that is found in them. Assertions about what
// follows may stand at its start, as libraries write them: ^(?!…)(?=…)…

#pragma once

#include <string_view>

#include "graft/grammar/dfa.h"

namespace graft::grammar::json {

// Throws Error with the position, as regex_search() does.
Dfa pattern_strings(std::string_view pattern);

}  // namespace graft::grammar::json
