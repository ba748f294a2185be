#include "graft/cli/chat/markdown/markdown.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/cli/chat/markdown/inline_spans.h"

namespace graft::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::array<std::uint8_t, 7> kLexemeColours = {0, 35, 32, 90, 36, 32, 31};
constexpr std::uint8_t kHeadingColour = 36;

TextStyle dimmed(TextStyle style) {
  style.dim = true;
  return style;
}

TextStyle heading_style(TextStyle style, int level) {
  style.bold = true;
  style.underline = level == 1;
  if (level <= 2) style.colour = kHeadingColour;
  return style;
}

TextStyle lexeme_style(TextStyle style, Lexeme::Kind kind) {
  style.colour = kLexemeColours[static_cast<std::size_t>(kind)];
  return style;
}

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += text;
  return out;
}

// Columns of a cell without its markers.
int cell_columns(const std::string& cell) {
  int columns = 0;
  render_inline(cell, 0, true, {},
                [&](std::string_view text, const TextStyle&) { columns += columns_of(text); });
  return columns;
}

// Rows of equal length, without the separator; empty: not a table.
Rows rows_of(const std::vector<std::string>& lines) {
  if (lines.size() < 2 || !is_table_separator(lines[1])) return {};
  Rows rows;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == 1) continue;
    rows.push_back(table_cells(lines[i]));
    rows.back().resize(rows.front().size());
  }
  return rows;
}

std::vector<int> widths_of(const Rows& rows) {
  std::vector<int> widths(rows.front().size(), 1);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], cell_columns(row[i]));
  }
  return widths;
}

}  // namespace

void MarkdownRenderer::feed(std::string_view text) {
  feed_safe(sanitizer_.feed(text));
}

void MarkdownRenderer::feed_safe(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    line_ += text.substr(0, end);
    const bool is_complete = end < text.size();
    advance(is_complete);
    if (is_complete) end_line();
    text.remove_prefix(is_complete ? end + 1 : end);
  }
}

void MarkdownRenderer::finish() {
  feed_safe(sanitizer_.finish());
  if (!line_.empty()) {
    advance(true);
    end_line();
  }
  write_table();
  out_.finish();
  if (!out_.is_at_line_start()) out_.end_line();
}

void MarkdownRenderer::advance(bool is_complete) {
  if (fence_) {
    advance_code(is_complete);
  } else if (kind_ || begin_line(is_complete)) {
    const TextStyle style =
        kind_->kind == MarkdownLine::Kind::Heading ? heading_style(base_, kind_->level) : base_;
    const bool has_text = kind_->kind == MarkdownLine::Kind::Text ||
                          kind_->kind == MarkdownLine::Kind::Heading ||
                          kind_->kind == MarkdownLine::Kind::Item;
    if (!has_text) return;
    done_ =
        render_inline(line_, done_, is_complete, style,
                      [&](std::string_view text, const TextStyle& span) { out_.text(text, span); });
  }
}

bool MarkdownRenderer::begin_line(bool is_complete) {
  kind_ = classify_line(line_, is_complete);
  if (!kind_) return false;
  if (kind_->kind != MarkdownLine::Kind::TableRow) write_table();
  done_ = kind_->content;
  begin_text();
  switch (kind_->kind) {
    case MarkdownLine::Kind::TableRow:
      table_.push_back(line_.substr(kind_->content));
      break;
    case MarkdownLine::Kind::Rule:
      out_.verbatim(repeated("─", std::min(out_.columns(), 40)), dimmed(base_));
      break;
    case MarkdownLine::Kind::Fence:
      fence_ = parse_fence(std::string_view(line_).substr(kind_->content));
      colours_.emplace(fence_->language);
      out_.verbatim(line_.substr(kind_->content), dimmed(base_));
      break;
    default:
      break;
  }
  return true;
}

// Writes quote bars, indentation and bullet.
void MarkdownRenderer::begin_text() {
  if (kind_->kind == MarkdownLine::Kind::TableRow || kind_->kind == MarkdownLine::Kind::Fence)
    return;
  std::string bars;
  for (std::size_t i = 0; i < kind_->quote_depth; ++i)
    bars += "│ ";
  const auto max_indent = static_cast<std::size_t>(out_.columns() / 2);
  const std::string indent(std::min(kind_->indent, max_indent), ' ');
  const bool is_item = kind_->kind == MarkdownLine::Kind::Item;
  const int hanging = is_item ? columns_of(kind_->bullet) + 1 : 0;
  out_.begin_line(bars + indent + std::string(static_cast<std::size_t>(hanging), ' '),
                  dimmed(base_));
  if (kind_->kind == MarkdownLine::Kind::Blank) {
    out_.verbatim(bars, dimmed(base_));
    return;
  }
  out_.verbatim(bars + indent, dimmed(base_));
  if (is_item) out_.verbatim(kind_->bullet + " ", dimmed(base_));
}

void MarkdownRenderer::end_line() {
  if (fence_ && is_code_) colours_->end_line();
  const bool closes = fence_ && kind_ == std::nullopt && !is_code_;
  if (closes) {
    out_.verbatim(line_.substr(line_.find_first_not_of(' ')), dimmed(base_));
    fence_.reset();
  }
  const bool is_row = kind_ && kind_->kind == MarkdownLine::Kind::TableRow;
  if (!is_row) out_.end_line();
  line_.clear();
  done_ = 0;
  kind_.reset();
  is_code_ = false;
}

void MarkdownRenderer::advance_code(bool is_complete) {
  if (!is_code_) {
    const std::optional<bool> closes = closes_fence(*fence_, line_, is_complete);
    if (!closes || *closes) return;
    is_code_ = true;
  }
  while (done_ < line_.size()) {
    const Lexeme lexeme = colours_->next(line_, done_, is_complete);
    if (lexeme.bytes == 0) return;
    out_.verbatim(std::string_view(line_).substr(done_, lexeme.bytes),
                  lexeme_style(base_, lexeme.kind));
    done_ += lexeme.bytes;
  }
}

void MarkdownRenderer::write_table() {
  if (table_.empty()) return;
  const std::vector<std::string> lines = std::exchange(table_, {});
  const Rows rows = rows_of(lines);
  if (rows.empty()) {
    for (const std::string& line : lines) {
      render_inline(line, 0, true, base_,
                    [&](std::string_view text, const TextStyle& style) { out_.text(text, style); });
      out_.end_line();
    }
    return;
  }
  const std::vector<int> widths = widths_of(rows);
  int total = 0;
  for (const int width : widths)
    total += width + 3;
  if (total - 3 > out_.columns()) {
    write_records(rows);
    return;
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    TextStyle style = base_;
    style.bold = r == 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i > 0) out_.verbatim(" │ ", dimmed(base_));
      render_inline(rows[r][i], 0, true, style, [&](std::string_view text, const TextStyle& span) {
        out_.verbatim(text, span);
      });
      const int padding = i + 1 < widths.size() ? widths[i] - cell_columns(rows[r][i]) : 0;
      out_.verbatim(repeated(" ", padding), base_);
    }
    out_.end_line();
    if (r > 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i)
      out_.verbatim((i > 0 ? "─┼─" : "") + repeated("─", widths[i]), dimmed(base_));
    out_.end_line();
  }
}

// A table that is wider than the terminal: "header: cell" lines, a blank line between rows.
void MarkdownRenderer::write_records(const Rows& rows) {
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (r > 1) out_.end_line();
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const auto sink = [&](std::string_view text, const TextStyle& style) {
        out_.text(text, style);
      };
      TextStyle bold = base_;
      bold.bold = true;
      out_.begin_line("  ", base_);
      render_inline(rows[0][i], 0, true, bold, sink);
      out_.text(": ", bold);
      render_inline(rows[r][i], 0, true, base_, sink);
      out_.end_line();
    }
  }
}

}  // namespace graft::cli
