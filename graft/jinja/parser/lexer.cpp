#include "graft/jinja/parser/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "graft/base/error.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

constexpr auto kNotFound = std::string_view::npos;

constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// As Jinja: converts \r\n and \r to \n and drops one trailing newline.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      text += '\n';
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name)
      : name_(name), owned_(normalized(source)), text_(owned_) {}

  std::vector<Token> run() {
    while (at_ < text_.size())
      root();
    add(TokenKind::End, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(const std::string& what) const { fail(name_, ":", line_, ": ", what); }

  void add(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .line = line_, .text = std::move(text)});
  }

  bool starts(std::string_view part) const { return text_.substr(at_).starts_with(part); }

  // Moves to `end`, counting lines and noting whether `end` begins a line.
  void advance(std::size_t end) {
    const std::string_view passed = text_.substr(at_, end - at_);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    if (!passed.empty()) at_line_start_ = passed.back() == '\n';
    at_ = end;
  }

  std::size_t skip_space(std::size_t at) const {
    while (at < text_.size()) {
      const CodePoint c = decode_utf8(text_, at);
      if (!is_space(c.value)) break;
      at += c.size;
    }
    return at;
  }

  // The offset after `word` and the spaces around it, or kNotFound if it does not follow.
  std::size_t after_word(std::size_t at, std::string_view word) const {
    at = skip_space(at);
    return text_.substr(at).starts_with(word) ? skip_space(at + word.size()) : kNotFound;
  }

  static bool is_sign(char c) { return c == '-' || c == '+'; }

  // The offset after a closing tag at `at`: "-%}" also consumes all following whitespace, "%}" one
  // newline if `trims`, "+%}" (allowed with `plus`) nothing. kNotFound if no tag closes here.
  std::size_t tag_end(std::size_t at, std::string_view close, bool plus, bool trims) const {
    const std::string_view rest = text_.substr(at);
    if (rest.starts_with(close)) {
      const std::size_t end = at + close.size();
      return trims && end < text_.size() && text_[end] == '\n' ? end + 1 : end;
    }
    if (rest.size() < 3 || !rest.substr(1).starts_with(close)) return kNotFound;
    if (rest[0] == '-') return skip_space(at + 1 + close.size());
    return plus && rest[0] == '+' ? at + 1 + close.size() : kNotFound;
  }

  // Adds the text before a tag, without the whitespace that the tag strips.
  void add_data(std::size_t end, char sign, bool is_variable) {
    std::string_view data = text_.substr(at_, end - at_);
    if (sign == '-') {
      data = strip_space(data, Side::Right);
    } else if (sign != '+' && !is_variable) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t begin = newline == kNotFound ? 0 : newline + 1;
      const bool all_space = strip_space(data.substr(begin)).empty();
      if ((begin > 0 || at_line_start_) && all_space) data = data.substr(0, begin);
    }
    if (!data.empty()) add(TokenKind::Data, std::string(data));
    advance(end);
  }

  std::size_t next_tag() const {
    for (std::size_t at = text_.find('{', at_); at != kNotFound; at = text_.find('{', at + 1)) {
      if (at + 1 >= text_.size()) break;
      const char next = text_[at + 1];
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return kNotFound;
  }

  void root() {
    const std::size_t tag = next_tag();
    if (tag == kNotFound) {
      add(TokenKind::Data, std::string(text_.substr(at_)));
      return advance(text_.size());
    }
    const bool has_sign = tag + 2 < text_.size() && is_sign(text_[tag + 2]);
    const char sign = has_sign ? text_[tag + 2] : '\0';
    const std::size_t inside = tag + (has_sign ? 3 : 2);
    const char kind = text_[tag + 1];
    if (kind == '%' && raw(tag, inside, sign)) return;
    add_data(tag, sign, kind == '{');
    if (kind == '#') return comment(inside);
    const bool is_block = kind == '%';
    add(is_block ? TokenKind::BlockBegin : TokenKind::VariableBegin, "");
    advance(inside);
    expression(is_block);
  }

  // {% raw %}…{% endraw %}; false for other tags.
  bool raw(std::size_t tag, std::size_t inside, char sign) {
    const std::size_t after = after_word(inside, "raw");
    if (after == kNotFound) return false;
    const std::size_t begin = tag_end(after, "%}", false, false);
    if (begin == kNotFound) return false;
    add_data(tag, sign, false);
    advance(begin);
    for (std::size_t end = text_.find("{%", at_); end != kNotFound;
         end = text_.find("{%", end + 1)) {
      const bool has_sign = end + 2 < text_.size() && is_sign(text_[end + 2]);
      const std::size_t word = after_word(end + (has_sign ? 3 : 2), "endraw");
      const std::size_t behind = word == kNotFound ? kNotFound : tag_end(word, "%}", true, true);
      if (behind == kNotFound) continue;
      add_data(end, has_sign ? text_[end + 2] : '\0', false);
      advance(behind);
      return true;
    }
    if (at_ < text_.size()) error("Missing end of raw directive");
    return true;
  }

  void comment(std::size_t inside) {
    const std::size_t close = text_.find("#}", inside);
    // Jinja accepts an empty comment that is not closed at the end of the template.
    if (close == kNotFound && inside < text_.size()) error("Missing end of comment tag");
    if (close == kNotFound) return advance(text_.size());
    // In "{#-#}" the sign belongs to the opening tag.
    const bool has_sign = close > inside && is_sign(text_[close - 1]);
    advance(tag_end(close - (has_sign ? 1 : 0), "#}", true, true));
  }

  void expression(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    while (true) {
      advance(skip_space(at_));
      if (at_ >= text_.size()) return;  // the parser reports the missing tag
      const std::size_t end =
          brackets_.empty() ? tag_end(at_, close, is_block, is_block) : kNotFound;
      if (end != kNotFound) {
        add(is_block ? TokenKind::BlockEnd : TokenKind::VariableEnd, "");
        return advance(end);
      }
      token();
    }
  }

  void token() {
    const char c = text_[at_];
    if (is_ascii_digit(c)) return number();
    if (c == '\'' || c == '"') return string();
    if (is_name_char(decode_utf8(text_, at_).value)) return name();
    for (const std::string_view op : kOperators) {
      if (!starts(op)) continue;
      balance(c);
      add(TokenKind::Operator, std::string(op));
      return advance(at_ + op.size());
    }
    const std::size_t size = decode_utf8(text_, at_).size;
    error(str("unexpected char '", text_.substr(at_, size), "'"));
  }

  void balance(char c) {
    constexpr std::string_view kOpen = "([{";
    constexpr std::string_view kClose = ")]}";
    const std::size_t open = kOpen.find(c);
    if (open != kNotFound) return brackets_.push_back(kClose[open]);
    if (kClose.find(c) == kNotFound) return;
    if (brackets_.empty()) error(str("unexpected '", c, "'"));
    if (brackets_.back() != c)
      error(str("unexpected '", c, "', expected '", brackets_.back(), "'"));
    brackets_.pop_back();
  }

  static bool is_name_char(char32_t c) {
    if (c < 0x80) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    }
    return is_alnum(c);
  }

  void name() {
    std::size_t end = at_;
    while (end < text_.size() && is_name_char(decode_utf8(text_, end).value))
      end += decode_utf8(text_, end).size;
    add(TokenKind::Name, std::string(text_.substr(at_, end - at_)));
    advance(end);
  }

  // The end of a run of `digits` with single underscores between them.
  std::size_t digits_end(std::size_t at, std::string_view digits) const {
    const auto is_digit = [&](std::size_t i) {
      return i < text_.size() && digits.find(text_[i]) != kNotFound;
    };
    while (is_digit(at) || (at < text_.size() && text_[at] == '_' && is_digit(at + 1)))
      ++at;
    return at;
  }

  // The end of a float whose integer part ends at `integer_end`; `integer_end` for an integer.
  std::size_t float_end(std::size_t integer_end) const {
    constexpr std::string_view kDigits = "0123456789";
    if (at_ > 0 && text_[at_ - 1] == '.') return integer_end;
    std::size_t end = integer_end;
    const auto digit_at = [&](std::size_t i) {
      return i < text_.size() && is_ascii_digit(text_[i]);
    };
    if (end < text_.size() && text_[end] == '.' && digit_at(end + 1))
      end = digits_end(end + 1, kDigits);
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const std::size_t sign = end + 1 < text_.size() && is_sign(text_[end + 1]) ? 2 : 1;
      if (digit_at(end + sign)) end = digits_end(end + sign, kDigits);
    }
    return end;
  }

  void number() {
    struct Base {
      char letter;
      int base;
      std::string_view digits;
    };
    static constexpr std::array kBases = {Base{'b', 2, "01"}, Base{'o', 8, "01234567"},
                                          Base{'x', 16, "0123456789abcdefABCDEF"}};
    const std::size_t integer_end = digits_end(at_, "0123456789");
    const std::size_t end = float_end(integer_end);
    if (end != integer_end) return add_float(end);
    if (text_[at_] == '0') {
      const char letter = at_ + 1 < text_.size() ? static_cast<char>(text_[at_ + 1] | 0x20) : '\0';
      for (const Base& base : kBases) {
        if (base.letter != letter) continue;
        const std::size_t stop = digits_end(at_ + 2, base.digits);
        if (stop > at_ + 2) return add_integer(at_ + 2, stop, base.base);
      }
      return add_integer(at_, digits_end(at_, "0"), 10);
    }
    add_integer(at_, integer_end, 10);
  }

  std::string without_underscores(std::size_t begin, std::size_t end) const {
    std::string digits(text_.substr(begin, end - begin));
    std::erase(digits, '_');
    return digits;
  }

  void add_float(std::size_t end) {
    add(TokenKind::Float, without_underscores(at_, end));
    tokens_.back().real = std::strtod(tokens_.back().text.c_str(), nullptr);
    advance(end);
  }

  void add_integer(std::size_t begin, std::size_t end, int base) {
    const std::string digits = without_underscores(begin, end);
    std::int64_t value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (read.ec != std::errc()) error(str("the integer ", digits, " does not fit into 64 bits"));
    add(TokenKind::Integer, digits);
    tokens_.back().integer = value;
    advance(end);
  }

  void string() {
    const char quote = text_[at_];
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote)
      end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) error(str("unexpected char ", quote == '"' ? "'\"'" : "\"'\""));
    add(TokenKind::String, unescape(text_.substr(at_ + 1, end - at_ - 1)));
    advance(end + 1);
  }

  std::string unescape(std::string_view text) const {
    constexpr std::string_view kPlain = "\\'\"abfnrtv";
    constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out += text[i++];
        continue;
      }
      const char c = text[i + 1];
      const std::size_t plain = kPlain.find(c);
      if (plain != kNotFound) {
        out += kMeaning[plain];
        i += 2;
      } else if (c == '\n') {
        i += 2;
      } else if (c >= '0' && c <= '7') {
        std::size_t end = i + 1;
        while (end < text.size() && end < i + 4 && text[end] >= '0' && text[end] <= '7')
          ++end;
        append_code(out, text.substr(i + 1, end - i - 1), 8);
        i = end;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t size = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
        append_code(out, text.substr(i + 2, size), 16, size);
        i += 2 + size;
      } else if (c == 'N') {
        error("character names (\\N{…}) are not supported");
      } else {
        out += '\\';
        ++i;
      }
    }
    return out;
  }

  void append_code(std::string& out,
                   std::string_view digits,
                   int base,
                   std::size_t size = 0) const {
    unsigned value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const bool is_read = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
    if (!is_read || digits.size() < size) error("truncated escape in a string");
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
      error("invalid code point in a string escape");
    append_utf8(out, value);
  }

  const std::string& name_;
  std::string owned_;
  std::string_view text_;
  std::vector<Token> tokens_;
  std::string brackets_;  // the expected closing brackets, innermost last
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& name) {
  if (!is_utf8(source)) fail(name, ": the template is not UTF-8");
  return Lexer(source, name).run();
}

}  // namespace graft::jinja
