// Regular expressions of tokenizer.json, which are Oniguruma's (Ruby's syntax), in PCRE2's words.
//
// They differ in: && and classes inside classes; \s \w \b (other sets of Unicode), \h \v \O \uNNNN;
// ^ and $ at every line; (?m); {,n}; {n,m}+ (repeats, is not possessive); long names of properties.

#pragma once

#include <string>
#include <string_view>

namespace graft::tokenizer {

// Throws Error for what has no translation.
std::string translated_pattern(std::string_view oniguruma);

// A pattern that matches exactly this text.
std::string quoted_pattern(std::string_view text);

}  // namespace graft::tokenizer
