#include "graft/cli/chat/markdown/wrap_writer.h"

#include <algorithm>
#include <utility>

namespace graft::cli {

int WrapWriter::columns() const {
  constexpr int kMinColumns = 20;
  return std::max(columns_(), kMinColumns);
}

void WrapWriter::begin_line(std::string continuation, const TextStyle& style) {
  continuation_ = std::move(continuation);
  continuation_style_ = style;
}

void WrapWriter::text(std::string_view text, const TextStyle& style) {
  while (!text.empty()) {
    const std::size_t size = char_bytes(text);
    const std::string_view character = text.substr(0, size);
    text.remove_prefix(size);
    if (character == " " || character == "\t") {
      end_word();
      ++num_spaces_;
      continue;
    }
    const int width = columns_of(character);
    if (width == 2) end_word();  // wide characters may be wrapped anywhere
    if (word_columns_ + width > columns() - columns_of(continuation_)) end_word();
    if (word_.empty() || word_.back().style != style) word_.push_back({"", style});
    word_.back().text += character;
    word_columns_ += width;
    if (width == 2) end_word();
  }
}

void WrapWriter::verbatim(std::string_view text, const TextStyle& style) {
  constexpr int kTabColumns = 4;
  end_word();
  while (!text.empty()) {
    const std::size_t tab = std::min(text.find('\t'), text.size());
    put(text.substr(0, tab), style);
    if (tab == text.size()) return;
    put(std::string(static_cast<std::size_t>(kTabColumns - column_ % kTabColumns), ' '), style);
    text.remove_prefix(tab + 1);
  }
}

void WrapWriter::end_word() {
  if (word_.empty()) return;
  const int start = columns_of(continuation_);
  if (column_ > start && column_ + num_spaces_ + word_columns_ > columns()) {
    write_("\n");
    column_ = 0;
    num_spaces_ = 0;
    put(continuation_, continuation_style_);
  }
  if (num_spaces_ > 0) {
    TextStyle spaces = style_;
    spaces.underline = false;
    spaces.strike = false;
    put(std::string(static_cast<std::size_t>(num_spaces_), ' '), spaces);
    num_spaces_ = 0;
  }
  for (const Run& run : word_)
    put(run.text, run.style);
  word_.clear();
  word_columns_ = 0;
}

void WrapWriter::put(std::string_view text, const TextStyle& style) {
  if (text.empty()) return;
  if (style != style_) write_(style_code(style));
  style_ = style;
  write_(text);
  column_ += columns_of(text);
}

void WrapWriter::end_line() {
  end_word();
  if (style_ != TextStyle()) write_(style_code({}));
  style_ = {};
  write_("\n");
  column_ = 0;
  num_spaces_ = 0;
  continuation_.clear();
}

void WrapWriter::finish() {
  end_word();
  if (style_ != TextStyle()) write_(style_code({}));
  style_ = {};
}

}  // namespace graft::cli
