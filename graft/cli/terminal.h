// Terminal output: colours and warnings.

#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace graft::cli {

enum class Tint : std::uint8_t { Bold, Dim, Red, Green, Yellow, Cyan };

bool is_terminal(std::FILE* stream);

// Whether to write colours: the stream is a terminal, NO_COLOR is unset or empty, TERM is set and
// not dumb.
bool has_colours(std::FILE* stream);

// The text with colour codes around it; unchanged without colours.
std::string tinted(Tint tint, std::string_view text, std::FILE* stream);

// Codes that start and end a colour, for streamed text; empty without colours.
std::string_view tint_start(Tint tint, std::FILE* stream);
std::string_view tint_end(std::FILE* stream);

// Text of a model with its control characters replaced by "?": they could move the cursor, change
// the title or answer for the user.
std::string terminal_safe(std::string_view text);

// Output that was lost must not look like success: throws Error, with the reason.
void flush_output();

// Columns of the terminal; 0: not a terminal, or unknown.
int terminal_columns(std::FILE* stream);

// Breaks lines that are longer than `columns` at blanks. Their continuations begin at the column of
// the last run of two blanks or more, as in a help text, so that texts stay below each other.
std::string wrapped(std::string_view text, int columns);

// Prints "graft: warning: …" on standard error.
void warn(std::string_view text);

}  // namespace graft::cli
