// UTF-8 and the few properties of characters that tokenizing asks for, by utf8proc.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace graft::tokenizer {

// A character of a text that may not be UTF-8: a byte that begins none stands alone.
struct Character {
  std::int32_t code;  // -1 for a byte that is no UTF-8
  std::size_t bytes;  // 1 to 4
};

// `text` must not be empty.
Character first_character(std::string_view text);

// The bytes at the begin of `text` that are UTF-8.
std::size_t valid_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) {
  return valid_prefix(text) == text.size();
}

// `text` ends inside a character: this many of its last bytes begin one that may still be
// completed. 0 when it ends with a whole character or with bytes that cannot become one.
std::size_t unfinished_suffix(std::string_view text);

// Each longest piece that begins a character but does not complete it becomes one U+FFFD, every
// other stray byte too.
std::string repaired(std::string_view text);

void append_utf8(std::int32_t code, std::string& out);

bool is_whitespace(std::int32_t code);      // property White_Space
bool is_word_character(std::int32_t code);  // \w of Rust: letters, marks, digits, connectors
std::int32_t to_lower(std::int32_t code);

}  // namespace graft::tokenizer
