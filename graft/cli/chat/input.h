// Reads chat input: messages over several lines, commands, and file names to expand.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graft/cli/chat/line_editor.h"

namespace graft::cli {

struct Input {
  enum class Kind : std::uint8_t { Message, Command, Nothing, End };

  Kind kind = Kind::Nothing;
  std::string text;
  std::vector<std::filesystem::path> images = {};  // files in the line, see dropped_images.h
};

// The next message or command ("/help"). Lines between """ are one message, without expansion of
// file names. Throws Error when a named file cannot be read.
Input read_input(LineEditor& editor, const std::string& prompt = ">>> ");

// Replaces a line that is the path of a file, and every word @path, by the contents of the file.
std::string expand_files(const std::string& line);

}  // namespace graft::cli
