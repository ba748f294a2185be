// Writes styled text to a terminal and wraps it between words at the terminal's width. A word is
// held back until it is complete, so the output does not depend on how the text is divided.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/cli/chat/markdown/text_style.h"

namespace graft::cli {

class WrapWriter {
 public:
  // `columns` is asked at every word, so that a resized terminal takes effect.
  WrapWriter(std::function<void(std::string_view)> write, std::function<int()> columns)
      : write_(std::move(write)), columns_(std::move(columns)) {}

  // Prefixes of the lines that wrapping begins, until the next begin_line().
  void begin_line(std::string continuation, const TextStyle& style);
  void text(std::string_view text, const TextStyle& style);      // one line, wrapped
  void verbatim(std::string_view text, const TextStyle& style);  // one line, not wrapped
  void end_line();
  void finish();  // writes the last word and resets the style

  int columns() const;
  bool is_at_line_start() const { return column_ == 0 && word_.empty(); }

 private:
  struct Run {
    std::string text;
    TextStyle style;
  };

  void end_word();
  void put(std::string_view text, const TextStyle& style);

  std::function<void(std::string_view)> write_;
  std::function<int()> columns_;
  std::string continuation_;
  TextStyle continuation_style_;
  int column_ = 0;
  int num_spaces_ = 0;  // before the word, not written yet
  std::vector<Run> word_;
  int word_columns_ = 0;
  TextStyle style_;  // of the terminal
};

}  // namespace graft::cli
