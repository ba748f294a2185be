// Reads lines from standard input, with editing, history and completion on a terminal. Pasted text
// of several lines is one line of input with the line breaks in it.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

class LineEditor {
 public:
  enum class Event : std::uint8_t { Line, Interrupt, End };

  // Loads the history from the file; the destructor saves it. Empty path: no history. Tab completes
  // the names of `commands`, which must outlive the editor, paths, and the names of `models`.
  LineEditor(std::filesystem::path history_file,
             std::span<const std::string_view> commands,
             std::function<std::vector<std::string>()> models);
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
