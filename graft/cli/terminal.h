// Terminal output: colours and warnings.

#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace graft::cli {

enum class Tint : std::uint8_t { Bold, Dim, Red, Green, Yellow, Cyan };

bool is_terminal(std::FILE* stream);

// Whether to write colours: the stream is a terminal, NO_COLOR is unset or empty, TERM is not dumb.
bool has_colours(std::FILE* stream);

// The text with colour codes around it; unchanged without colours.
std::string tinted(Tint tint, std::string_view text, std::FILE* stream);

// Codes that start and end a colour, for streamed text; empty without colours.
std::string_view tint_start(Tint tint, std::FILE* stream);
std::string_view tint_end(std::FILE* stream);

// Prints "graft: warning: …" on standard error.
void warn(std::string_view text);

}  // namespace graft::cli
