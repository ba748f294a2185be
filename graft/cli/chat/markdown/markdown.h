// Renders Markdown on a terminal while it arrives: headings, emphasis, code with colours, lists,
// tables, links and quotes. Text whose meaning later text decides is held back, so that the output
// does not depend on how the input is divided. A table is shown when it is complete. Line breaks of
// the source stay. Control characters never reach the terminal.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/cli/chat/markdown/blocks.h"
#include "graft/cli/chat/markdown/code_colours.h"
#include "graft/cli/chat/markdown/text_style.h"
#include "graft/cli/chat/markdown/wrap_writer.h"

namespace graft::cli {

class MarkdownRenderer {
 public:
  // `out` must outlive the renderer. `base`: the style of plain text.
  explicit MarkdownRenderer(WrapWriter& out, const TextStyle& base = {}) : out_(out), base_(base) {}

  void feed(std::string_view text);
  void finish();  // writes what was held back and ends the line

 private:
  void feed_safe(std::string_view text);
  void advance(bool is_complete);
  void end_line();
  bool begin_line(bool is_complete);  // false: more of the line is needed
  void begin_text();
  void advance_code(bool is_complete);
  void write_table();
  void write_records(const std::vector<std::vector<std::string>>& rows);

  WrapWriter& out_;
  TextStyle base_;
  Sanitizer sanitizer_;
  std::string line_;                    // without its line break
  std::size_t done_ = 0;                // bytes of it that were rendered
  std::optional<MarkdownLine> kind_;    // of the line; nothing: unknown so far
  std::optional<CodeFence> fence_;      // of the open code block
  std::optional<CodeColours> colours_;  // of it
  bool is_code_ = false;                // the line is code, not a closing fence
  std::vector<std::string> table_;      // rows that were not written yet
};

}  // namespace graft::cli
