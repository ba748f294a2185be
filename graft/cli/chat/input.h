// What a person types, put together: a message over several lines, files in the place of names.

#pragma once

#include <cstdint>
#include <string>

#include "graft/cli/chat/line_editor.h"

namespace graft::cli {

struct Input {
  enum class Kind : std::uint8_t { Message, Command, Nothing, End };

  Kind kind = Kind::Nothing;
  std::string text;
};

// The next message or command ("/help"). Lines between """ are one message, as they stand. Throws
// Error when a file that was named cannot be read.
Input read_input(LineEditor& editor);

// A line that is the path of a file becomes its contents, as does every word @path of one.
std::string with_files(const std::string& line);

}  // namespace graft::cli
