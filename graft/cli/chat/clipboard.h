// What /copy sends to the clipboard of the terminal.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace graft::cli {

// The escape sequence (OSC 52) that makes a terminal copy the text.
std::string clipboard_code(std::string_view text);

// The content of the last fenced code block of an answer; nothing: it has none.
std::optional<std::string> last_code_block(std::string_view markdown);

}  // namespace graft::cli
