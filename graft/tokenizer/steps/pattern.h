// Translates the regular expressions of tokenizer.json from Oniguruma (Ruby syntax) to PCRE2.
//
// The differences: && and nested classes; \s \w \b (other Unicode sets), \h \v \O \uNNNN; ^ and $
// match at every line; (?m); {,n}; {n,m}+ (repeated, not possessive); long property names.

#pragma once

#include <string>
#include <string_view>

namespace graft::tokenizer {

// Throws Error for syntax that cannot be translated.
std::string translated_pattern(std::string_view oniguruma);

// A pattern that matches exactly this text.
std::string quoted_pattern(std::string_view text);

}  // namespace graft::tokenizer
