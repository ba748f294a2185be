#include "graft/cli/chat/markdown/blocks.h"

#include <algorithm>
#include <utility>

#include "graft/base/text/ascii.h"

namespace graft::cli {
namespace {

using LineKind = MarkdownLine::Kind;

std::size_t run_of(std::string_view text, char c) {
  return std::min(text.find_first_not_of(c), text.size());
}

std::optional<MarkdownLine> heading_line(std::string_view text,
                                         bool is_complete,
                                         MarkdownLine line) {
  const std::size_t level = run_of(text, '#');
  if (level > 6) return line;
  if (level == text.size()) return is_complete ? std::optional(line) : std::nullopt;
  if (text[level] != ' ') return line;
  line.kind = LineKind::Heading;
  line.level = static_cast<int>(level);
  line.content += level + 1;
  return line;
}

std::optional<MarkdownLine> fence_line(std::string_view text, bool is_complete, MarkdownLine line) {
  const std::size_t size = run_of(text, text[0]);
  const bool is_short = size < 3;
  if (is_short && size < text.size()) return line;
  if (!is_complete) return std::nullopt;
  const bool is_code_span = text[0] == '`' && text.find('`', size) != std::string_view::npos;
  if (!is_short && !is_code_span) line.kind = LineKind::Fence;
  return line;
}

// "[ ] " and "[x] " after the bullet are boxes.
std::optional<MarkdownLine> task_line(std::string_view text, bool is_complete, MarkdownLine item) {
  constexpr std::size_t kBoxBytes = 4;
  const std::string_view start = text.substr(0, kBoxBytes);
  for (const auto& [box, shown] :
       {std::pair("[ ] ", "☐"), std::pair("[x] ", "☑"), std::pair("[X] ", "☑")}) {
    if (start == box) {
      item.bullet = shown;
      item.content += kBoxBytes;
      return item;
    }
    if (!is_complete && std::string_view(box).starts_with(start)) return std::nullopt;
  }
  return item;
}

// A bullet, or a rule of three or more equal marks.
std::optional<MarkdownLine> bullet_or_rule(std::string_view text,
                                           bool is_complete,
                                           MarkdownLine line) {
  const char mark = text[0];
  const bool is_uniform = std::ranges::all_of(text, [&](char c) { return c == mark || c == ' '; });
  if (is_uniform && !is_complete) return std::nullopt;
  if (is_uniform && mark != '+' && std::ranges::count(text, mark) >= 3) {
    line.kind = LineKind::Rule;
    return line;
  }
  if (mark == '_' || text.size() < 2 || text[1] != ' ') return line;
  line.kind = LineKind::Item;
  line.bullet = "•";
  const std::size_t size = 1 + run_of(text.substr(1), ' ');
  line.content += size;
  return task_line(text.substr(size), is_complete, line);
}

std::optional<MarkdownLine> numbered_line(std::string_view text,
                                          bool is_complete,
                                          MarkdownLine line) {
  constexpr std::size_t kMaxDigits = 9;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > kMaxDigits) return line;
  if (text.size() < digits + 2) {
    const bool may_be_item = digits == text.size() || text[digits] == '.' || text[digits] == ')';
    return may_be_item && !is_complete ? std::nullopt : std::optional(line);
  }
  if ((text[digits] != '.' && text[digits] != ')') || text[digits + 1] != ' ') return line;
  line.kind = LineKind::Item;
  line.bullet = text.substr(0, digits + 1);
  line.content += digits + 2;
  return line;
}

}  // namespace

std::optional<MarkdownLine> classify_line(std::string_view text, bool is_complete) {
  constexpr std::size_t kMaxQuotes = 8;
  MarkdownLine line;
  for (;;) {
    const std::string_view rest = text.substr(line.content);
    line.indent = run_of(rest, ' ');
    line.content += line.indent;
    if (line.content == text.size()) {
      line.kind = LineKind::Blank;
      return is_complete ? std::optional(line) : std::nullopt;
    }
    if (text[line.content] != '>' || line.quote_depth == kMaxQuotes) break;
    ++line.quote_depth;
    ++line.content;
    if (line.content == text.size() && !is_complete) return std::nullopt;
    if (text.substr(line.content).starts_with(' ')) ++line.content;
  }
  const std::string_view rest = text.substr(line.content);
  switch (rest[0]) {
    case '#':
      return heading_line(rest, is_complete, line);
    case '`':
    case '~':
      return fence_line(rest, is_complete, line);
    case '-':
    case '*':
    case '+':
    case '_':
      return bullet_or_rule(rest, is_complete, line);
    case '|':
      if (!is_complete) return std::nullopt;
      line.kind = LineKind::TableRow;
      return line;
    default:
      return rest[0] >= '0' && rest[0] <= '9' ? numbered_line(rest, is_complete, line) : line;
  }
}

CodeFence parse_fence(std::string_view line) {
  const std::string_view text = trimmed(line, " \t");
  CodeFence fence = {.marker = text[0], .size = run_of(text, text[0]), .language = ""};
  const std::string_view info = trimmed(text.substr(fence.size), " \t{.");
  fence.language = info.substr(0, info.find_first_of(" \t,}:"));
  return fence;
}

std::optional<bool> closes_fence(const CodeFence& fence, std::string_view line, bool is_complete) {
  const std::string_view text = line.substr(run_of(line, ' '));
  const std::size_t size = run_of(text, fence.marker);
  const bool may_close = text.find_first_not_of(' ', size) == std::string_view::npos;
  if (!may_close) return false;
  if (!is_complete) return std::nullopt;
  return size >= fence.size;
}

std::vector<std::string> table_cells(std::string_view row) {
  row = trimmed(row, " \t");
  if (row.starts_with('|')) row.remove_prefix(1);
  std::vector<std::string> cells(1);
  bool in_code = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size() && row[i + 1] == '|') {
      cells.back() += row[++i];
      continue;
    }
    if (row[i] == '`') in_code = !in_code;
    if (row[i] == '|' && !in_code) {
      cells.emplace_back();
    } else {
      cells.back() += row[i];
    }
  }
  for (std::string& cell : cells)
    cell = std::string(trimmed(cell, " \t"));
  if (cells.size() > 1 && cells.back().empty() && row.ends_with('|')) cells.pop_back();
  return cells;
}

bool is_table_separator(std::string_view row) {
  const std::vector<std::string> cells = table_cells(row);
  return std::ranges::all_of(cells, [](const std::string& cell) {
    return cell.find_first_not_of("-:") == std::string::npos && cell.find('-') != std::string::npos;
  });
}

}  // namespace graft::cli
