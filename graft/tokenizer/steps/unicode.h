// UTF-8 decoding and the character properties that tokenizers need, based on utf8proc.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace graft::tokenizer {

// A character of a text that may contain invalid UTF-8: an invalid byte is a character.
struct Character {
  std::int32_t code;  // code point; -1 for an invalid byte
  std::size_t bytes;  // 1 to 4
};

// `text` must not be empty.
Character first_character(std::string_view text);

// Size of the longest valid UTF-8 prefix.
std::size_t valid_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) {
  return valid_prefix(text) == text.size();
}

// Number of bytes at the end of `text` that begin a character which may still be completed. 0 if it
// ends with a complete character or with invalid bytes.
std::size_t incomplete_suffix(std::string_view text);

// Replaces invalid UTF-8 by U+FFFD, one per maximal subpart of a character and one per other
// invalid byte.
std::string replace_invalid_utf8(std::string_view text);

void append_utf8(std::int32_t code, std::string& out);

bool is_whitespace(std::int32_t code);      // property White_Space
bool is_word_character(std::int32_t code);  // \w of Rust: letters, marks, digits, connectors
std::int32_t to_lower(std::int32_t code);

}  // namespace graft::tokenizer
