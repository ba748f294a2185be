// Reads lines from standard input, with editing and history on a terminal.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace graft::cli {

class LineEditor {
 public:
  enum class Event : std::uint8_t { Line, Interrupt, End };

  // Loads the history from the file; the destructor saves it. Empty path: no history.
  explicit LineEditor(std::filesystem::path history_file);
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  // Interrupt: Ctrl-C, the line is dropped. End: Ctrl-D on an empty line, or end of file.
  Event read(const std::string& prompt, std::string& line);

  bool is_interactive() const;

 private:
  struct Terminal;  // libedit; null when standard input or output is not a terminal

  Event read_pipe(std::string& line);

  std::unique_ptr<Terminal> terminal_;
};

}  // namespace graft::cli
