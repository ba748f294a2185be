// Attributes of text on a terminal.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace graft::cli {

struct TextStyle {
  bool bold = false;
  bool dim = false;
  bool italic = false;
  bool underline = false;
  bool strike = false;
  std::uint8_t colour = 0;  // SGR foreground, 31 to 37 and 90 to 97; 0: the terminal's own

  bool operator==(const TextStyle&) const = default;
};

// Receives text in order, each piece in one style.
using StyledSink = std::function<void(std::string_view text, const TextStyle& style)>;

// The SGR sequence that changes any style to this one.
std::string style_code(const TextStyle& style);

// Columns of UTF-8 text: 2 for wide characters, 0 for combining ones.
int columns_of(std::string_view text);

// The bytes of the character at the start of valid UTF-8 text.
std::size_t char_bytes(std::string_view text);

// Replaces control characters other than line breaks and tabs by "?" and invalid bytes by U+FFFD;
// drops carriage returns. The result does not depend on how the text is divided.
class Sanitizer {
 public:
  std::string feed(std::string_view text);  // holds back an incomplete character
  std::string finish();

 private:
  std::string held_;
};

}  // namespace graft::cli
