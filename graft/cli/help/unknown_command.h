// What to say of a command that graft does not have: the nearest one, or graft's way of doing what
// a command of another program does.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

// One line: "unknown command 'rnu'; did you mean 'run'?"
std::string unknown_command(std::string_view word, const std::vector<std::string>& commands);

// The fewest insertions, deletions, replacements and swaps of neighbours that make `a` of `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace graft::cli
