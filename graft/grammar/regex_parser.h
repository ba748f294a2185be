// The parser of regular expressions. Private to regex.cpp and regex_parser.cpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graft/grammar/expression.h"

namespace graft::grammar {

// Bytes that are in no UTF-8 text stand for ^ and $.
inline constexpr std::uint8_t kBeginMark = 0xFE;
inline constexpr std::uint8_t kEndMark = 0xFF;

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {}

  struct Result {
    Expr body;  // with marks for the anchors that are not at the ends
    bool is_begin_anchored = false;
    bool is_end_anchored = false;
    bool has_marks = false;
  };
  Result parse();

 private:
  using CodeRanges = std::vector<CodeRange>;

  template <class... Parts>
  [[noreturn]] void fail_at(std::size_t position, const Parts&... parts) const;
  bool is_done() const { return position_ == pattern_.size(); }
  char peek() const { return pattern_[position_]; }
  bool take(char c);
  bool take(std::string_view text);
  std::uint32_t take_code_point();

  Expr alternatives();
  std::vector<Expr> terms();
  Expr term();
  Expr atom();
  Expr group();
  Expr escape();
  std::optional<CodeRanges> class_escape(char letter) const;
  Expr character_class();
  bool class_item(CodeRanges& ranges, std::uint32_t& code_point);
  std::uint32_t character_escape();
  std::uint32_t hex_digits(int count);
  std::uint32_t hex_braces();
  std::uint32_t unicode_escape();
  Expr quantified(Expr body);
  std::optional<std::pair<std::int64_t, std::int64_t>> braces();
  std::optional<std::int64_t> number();

  std::string_view pattern_;
  std::size_t position_ = 0;
  int depth_ = 0;
  int num_marks_ = 0;
  Expr begin_ = bytes({{kBeginMark, kBeginMark}});
  Expr end_ = bytes({{kEndMark, kEndMark}});
};

}  // namespace graft::grammar
