// Text as Python's str: a sequence of code points, with Python's character classes and case
// mappings. Strings are UTF-8; an invalid byte counts as one code point, so that every text is
// accepted.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace graft::jinja {

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 1;  // bytes
};

// The code point that starts at byte `at` < text.size().
CodePoint decode_utf8(std::string_view text, std::size_t at);
void append_utf8(std::string& text, char32_t code_point);
// Whether the bytes are valid UTF-8.
bool is_utf8(std::string_view text);

std::size_t num_code_points(std::string_view text);
// The byte offset of the code point with that index; text.size() if the index is too large.
std::size_t byte_offset(std::string_view text, std::size_t index);

bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);      // letters like U+01C5
bool is_printable(char32_t c);  // not escaped by repr()
inline bool is_alnum(char32_t c) {
  return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);

// Removes whitespace or any of `chars` from the ends of the text.
enum class Side { Left, Right, Both };
std::string_view strip_space(std::string_view text, Side side = Side::Both);
std::string_view strip_any(std::string_view text, std::string_view chars, Side side = Side::Both);

}  // namespace graft::jinja
