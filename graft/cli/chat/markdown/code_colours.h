// Colours of code: divides the lines of a code block into lexemes, for the common languages. The
// kinds do not depend on how a line is divided.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace graft::cli {

struct Lexeme {
  enum class Kind : std::uint8_t { Plain, Keyword, String, Comment, Number, Added, Removed };

  std::size_t bytes = 0;  // 0: more of the line is needed
  Kind kind = Kind::Plain;
};

struct CodeLanguage;  // in code_colours.cpp

class CodeColours {
 public:
  // `language` as after the opening fence: "cpp", "Python", …; others have no colours.
  explicit CodeColours(std::string_view language);

  // The lexeme at `at`, which must be smaller than the size of the line.
  Lexeme next(std::string_view line, std::size_t at, bool is_complete);
  void end_line() { in_line_comment_ = false; }

 private:
  Lexeme until(std::string_view line, std::size_t at, bool is_complete, Lexeme::Kind kind);
  Lexeme string(std::string_view line, std::size_t at, bool is_complete);
  Lexeme word(std::string_view line, std::size_t at, bool is_complete) const;

  const CodeLanguage* language_;  // null: no colours
  bool in_line_comment_ = false;
  std::string end_;  // that ends a comment or string of several lines; empty: in none
  Lexeme::Kind kind_ = Lexeme::Kind::Plain;  // of it
};

}  // namespace graft::cli
