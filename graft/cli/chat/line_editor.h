// Lines from a person: with editing and history on a terminal, plain ones from a pipe.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace graft::cli {

class LineEditor {
 public:
  enum class Event : std::uint8_t { Line, Interrupt, End };

  // The history is read from the file, and written when the editor goes; empty: none is kept.
  explicit LineEditor(std::filesystem::path history_file);
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  // Ctrl-C is an Interrupt and drops the line, Ctrl-D on an empty line or the end of a pipe the
  // End.
  Event read(const std::string& prompt, std::string& line);

  bool is_interactive() const;

 private:
  struct Terminal;  // libedit's, only where there is a terminal

  Event read_pipe(std::string& line);

  std::unique_ptr<Terminal> terminal_;
};

}  // namespace graft::cli
