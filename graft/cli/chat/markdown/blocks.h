// Kinds of lines in Markdown.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

struct MarkdownLine {
  enum class Kind : std::uint8_t { Blank, Text, Heading, Item, Rule, Fence, TableRow };

  Kind kind = Kind::Text;
  std::size_t quote_depth = 0;
  std::size_t indent = 0;   // spaces before the content of the quote
  std::size_t content = 0;  // where the content begins
  int level = 0;            // of a heading
  std::string bullet;       // of an item: "•", "2.", "☐"
};

// Nothing: more of the line is needed. A fence, a rule and a row of a table need the complete line.
std::optional<MarkdownLine> classify_line(std::string_view text, bool is_complete);

// An opening fence: ``` or ~~~, with the language.
struct CodeFence {
  char marker = '`';
  std::size_t size = 3;
  std::string language;
};
CodeFence parse_fence(std::string_view line);

// Whether the line closes the fence; nothing: more of the line is needed.
std::optional<bool> closes_fence(const CodeFence& fence, std::string_view line, bool is_complete);

// The cells of a row, trimmed. A bar in code or after a backslash does not end a cell.
std::vector<std::string> table_cells(std::string_view row);

// Whether a row only separates the header from the body, "|---|:-:|".
bool is_table_separator(std::string_view row);

}  // namespace graft::cli
