#include "graft/cli/chat/markdown/code_colours.h"

#include <algorithm>
#include <array>

#include "graft/base/text/ascii.h"

namespace graft::cli {

struct CodeLanguage {
  std::string_view names;         // separated and enclosed by spaces
  std::string_view keywords;      // as names
  std::string_view line_comment;  // empty: none
  bool has_block_comments = false;
  std::string_view quotes;
  std::string_view long_quotes = {};  // of strings of several lines: ` or " for """
};

namespace {

using LexemeKind = Lexeme::Kind;

constexpr std::array kLanguages = {
    CodeLanguage{" c cpp c++ h hpp cc cxx cuda ",
                 " alignas auto bool break case catch char class const constexpr continue default "
                 "delete do double else enum explicit extern false float for friend goto if inline "
                 "int long namespace new noexcept nullptr operator private protected public return "
                 "short signed sizeof static struct switch template this throw true try typedef "
                 "typename union unsigned using virtual void volatile while ",
                 "//", true, "\"'"},
    CodeLanguage{" python py python3 ",
                 " False None True and as assert async await break class continue def del elif "
                 "else except finally for from global if import in is lambda nonlocal not or pass "
                 "raise return try while with yield match case ",
                 "#", false, "\"'", "\"'"},
    CodeLanguage{" javascript js jsx typescript ts tsx ",
                 " abstract any as async await boolean break case catch class const continue "
                 "default delete do else enum export extends false finally for from function if "
                 "implements import in instanceof interface let new null number of private public "
                 "readonly return static string super switch this throw true try type typeof "
                 "undefined var void while yield ",
                 "//", true, "\"'", "`"},
    CodeLanguage{" rust rs ",
                 " as async await bool break const continue crate dyn else enum extern false fn "
                 "for if impl in let loop match mod move mut pub ref return self Self static "
                 "struct super trait true type unsafe use usize where while i32 i64 u8 u32 u64 f32 "
                 "f64 str String Vec Option Result ",
                 "//", true, "\""},
    CodeLanguage{" go golang ",
                 " bool break case chan const continue default defer else error fallthrough false "
                 "for func go goto if import int interface map nil package range return select "
                 "string struct switch true type var ",
                 "//", true, "\"'", "`"},
    CodeLanguage{" java kotlin kt csharp cs c# swift scala php dart ",
                 " abstract as async await base bool boolean break byte case catch char class "
                 "const continue def default do double echo else enum extends false final finally "
                 "float for foreach fun func function guard if implements import in init int "
                 "interface internal is let long match namespace new nil null object override "
                 "package private protected public return sealed self static string String struct "
                 "super switch this throw throws trait true try using val var virtual void when "
                 "where while yield ",
                 "//", true, "\"'"},
    CodeLanguage{" bash sh shell zsh console ",
                 " case do done elif else esac export fi for function if in local return set "
                 "shift then unset until while cd echo exit source sudo ",
                 "#", false, "\"'"},
    CodeLanguage{" ruby rb perl elixir ",
                 " and begin break case class def defmodule do else elsif end ensure false fn for "
                 "if in module my next nil not or package print puts require rescue return self "
                 "sub then true undef unless until use when while yield ",
                 "#", false, "\"'"},
    CodeLanguage{" sql mysql postgresql sqlite ",
                 " add all alter and as asc between by case create delete desc distinct drop else "
                 "end exists foreign from full group having in index inner insert into is join key "
                 "left like limit not null on or order outer primary references right select set "
                 "table then union unique update values view when where with ",
                 "--", true, "\"'"},
    CodeLanguage{" lua haskell hs ",
                 " and break case class data deriving do else elseif end false for function if "
                 "import in instance let local module nil not of or repeat return then true type "
                 "until where while ",
                 "--", false, "\""},
    CodeLanguage{" json json5 jsonc ", " true false null ", "//", true, "\""},
    CodeLanguage{" yaml yml toml ini dockerfile cmake make makefile ",
                 " true false null yes no on off FROM RUN COPY ENV CMD ENTRYPOINT WORKDIR ARG ",
                 "#", false, "\"'"},
    CodeLanguage{" css scss less ", " important media import keyframes ", "", true, "\"'"},
    CodeLanguage{" diff patch ", "", "", false, ""},
};

const CodeLanguage* find_language(std::string_view name) {
  const std::string key = " " + lower_case(name) + " ";
  if (name.empty()) return nullptr;
  const auto* found = std::ranges::find_if(kLanguages, [&](const CodeLanguage& language) {
    return language.names.find(key) != std::string::npos;
  });
  return found == kLanguages.end() ? nullptr : found;
}

bool is_code_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_code_word(char c) {
  return is_code_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Whether the rest of the line begins with `start`: yes, no, or more of the line is needed.
enum class Begins : std::uint8_t { No, Yes, Unknown };

Begins begins(std::string_view rest, std::string_view start, bool is_complete) {
  if (start.empty()) return Begins::No;
  if (rest.starts_with(start)) return Begins::Yes;
  return !is_complete && start.starts_with(rest) ? Begins::Unknown : Begins::No;
}

bool is_diff(const CodeLanguage& language) {
  return language.names.starts_with(" diff ");
}

LexemeKind diff_kind(char first) {
  if (first == '+') return LexemeKind::Added;
  if (first == '-') return LexemeKind::Removed;
  return first == '@' ? LexemeKind::Comment : LexemeKind::Plain;
}

}  // namespace

CodeColours::CodeColours(std::string_view language) : language_(find_language(language)) {}

Lexeme CodeColours::next(std::string_view line, std::size_t at, bool is_complete) {
  const std::string_view rest = line.substr(at);
  if (language_ == nullptr) return {.bytes = rest.size(), .kind = LexemeKind::Plain};
  if (is_diff(*language_)) return {.bytes = rest.size(), .kind = diff_kind(line[0])};
  if (in_line_comment_) return {.bytes = rest.size(), .kind = LexemeKind::Comment};
  if (!end_.empty()) return until(line, at, is_complete, kind_);

  const bool may_be_comment =
      language_->line_comment != "#" || at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t';
  const Begins line_comment =
      may_be_comment ? begins(rest, language_->line_comment, is_complete) : Begins::No;
  const Begins block_comment =
      language_->has_block_comments ? begins(rest, "/*", is_complete) : Begins::No;
  if (line_comment == Begins::Unknown || block_comment == Begins::Unknown) return {};
  if (line_comment == Begins::Yes) {
    in_line_comment_ = true;
    return {.bytes = rest.size(), .kind = LexemeKind::Comment};
  }
  if (block_comment == Begins::Yes) {
    end_ = "*/";
    kind_ = LexemeKind::Comment;
    return {.bytes = 2, .kind = LexemeKind::Comment};
  }
  const std::string quotes = std::string(language_->quotes) + std::string(language_->long_quotes);
  if (quotes.find(rest[0]) != std::string::npos) return string(line, at, is_complete);
  if (is_code_word(rest[0])) return word(line, at, is_complete);
  return {.bytes = 1, .kind = LexemeKind::Plain};
}

// In a comment or string of several lines.
Lexeme CodeColours::until(std::string_view line,
                          std::size_t at,
                          bool is_complete,
                          LexemeKind kind) {
  const std::size_t found = line.find(end_, at);
  if (found != std::string_view::npos) {
    const std::size_t bytes = found + end_.size() - at;
    end_.clear();
    return {.bytes = bytes, .kind = kind};
  }
  const std::size_t rest = line.size() - at;
  if (is_complete) return {.bytes = rest, .kind = kind};
  return {.bytes = rest - std::min(rest, end_.size() - 1), .kind = kind};
}

Lexeme CodeColours::string(std::string_view line, std::size_t at, bool is_complete) {
  const char quote = line[at];
  const std::string_view rest = line.substr(at);
  if (language_->long_quotes.find(quote) != std::string_view::npos) {
    const std::string mark(quote == '`' ? 1 : 3, quote);
    const Begins found = begins(rest, mark, is_complete);
    if (found == Begins::Unknown) return {};
    if (found == Begins::Yes) {
      end_ = mark;
      kind_ = LexemeKind::String;
      return {.bytes = mark.size(), .kind = LexemeKind::String};
    }
  }
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '\\') {
      ++i;
    } else if (rest[i] == quote) {
      return {.bytes = i + 1, .kind = LexemeKind::String};
    }
  }
  if (!is_complete) return {};
  // An apostrophe of a comment or a type parameter.
  return {.bytes = 1, .kind = LexemeKind::Plain};
}

Lexeme CodeColours::word(std::string_view line, std::size_t at, bool is_complete) const {
  const bool is_number = is_code_digit(line[at]);
  std::size_t end = at;
  while (end < line.size() && (is_code_word(line[end]) || (is_number && line[end] == '.')))
    ++end;
  if (end == line.size() && !is_complete) return {};
  if (is_number) return {.bytes = end - at, .kind = LexemeKind::Number};
  std::string key = " " + std::string(line.substr(at, end - at)) + " ";
  if (language_->line_comment == "--" && language_->has_block_comments) key = lower_case(key);
  const bool is_keyword = language_->keywords.find(key) != std::string_view::npos;
  return {.bytes = end - at, .kind = is_keyword ? LexemeKind::Keyword : LexemeKind::Plain};
}

}  // namespace graft::cli
