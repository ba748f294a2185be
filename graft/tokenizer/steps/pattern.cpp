#include "graft/tokenizer/steps/pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/tokenizer/steps/character_class.h"

namespace graft::tokenizer {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// Long property names, which PCRE2 does not support.
constexpr std::array<Names, 19> kLongNames = {{
    {"letter", "L"},
    {"uppercase_letter", "Lu"},
    {"lowercase_letter", "Ll"},
    {"titlecase_letter", "Lt"},
    {"modifier_letter", "Lm"},
    {"other_letter", "Lo"},
    {"mark", "M"},
    {"nonspacing_mark", "Mn"},
    {"spacing_mark", "Mc"},
    {"enclosing_mark", "Me"},
    {"number", "N"},
    {"decimal_number", "Nd"},
    {"letter_number", "Nl"},
    {"other_number", "No"},
    {"punctuation", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"space_separator", "Zs"},
    {"other", "C"},
}};

// Unicode's White_Space. PCRE2's \s also contains U+180E.
constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kNotSpace =
    R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Cs}\p{Co}\p{Cn}\x{0}-\x{8}\x{E}-\x{1F}\x{7F}-\x{84})"
    R"(\x{86}-\x{9F})";
// Alphabetic characters, marks, digits, connectors. Circled letters are alphabetic by a property
// that old PCRE2 versions lack.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169})"
    R"(\x{1F170}-\x{1F189})";
constexpr std::string_view kHex = "0-9a-fA-F";

// Escapes for a set of characters.
struct SetEscape {
  char letter;
  std::string_view items;  // of a class, or of a negated class
  bool is_negated;
  std::string_view inside;  // the items within another class; empty: not expressible
};

constexpr std::array<SetEscape, 6> kSetEscapes = {{
    {'s', kSpace, false, kSpace},
    {'S', kSpace, true, kNotSpace},
    {'w', kWord, false, kWord},
    {'W', kWord, true, ""},
    {'h', kHex, false, kHex},
    {'H', kHex, true, ""},
}};

// \b (is_one) or \B.
std::string boundary(bool is_one) {
  const std::string after = str("(?<=[", kWord, "])");
  const std::string not_after = str("(?<![", kWord, "])");
  const std::string before = str("(?=[", kWord, "])");
  const std::string not_before = str("(?![", kWord, "])");
  return is_one ? str("(?:", after, not_before, '|', not_after, before, ')')
                : str("(?:", after, before, '|', not_after, not_before, ')');
}

// Equivalent patterns without quadratic time: a run of spaces is scanned once, not once for each of
// its spaces.
constexpr std::array<Names, 2> kFasterPatterns = {{
    {R"(\s+$)", R"((?<!\s)\s+$)"},
    {R"(\s++$)", R"((?<!\s)\s++$)"},
}};

class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  std::string run() {
    out_ = "(?m)";
    while (at_ < in_.size())
      step();
    return std::move(out_);
  }

 private:
  bool has(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  [[noreturn]] void unsupported(std::string_view what) const {
    fail("pattern ", in_, " at ", at_, ": ", what, " is not supported");
  }
  // Appends an atom, to which a quantifier may apply.
  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }
  std::string parse_escape(bool in_class);
  std::string read(std::size_t count);
  std::string property(bool is_positive);
  void step();
  void group();
  bool repeat_count();
  CharacterClass parse_class();
  void add_item(CharacterClass& result);
  std::string bracket();

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // offset of the last atom in out_
  std::vector<std::size_t> groups_;  // offsets of the open groups in out_
};

// Parses "p{…}" or "pL" after the backslash.
std::string Translator::property(bool is_positive) {
  ++at_;
  if (at_ < in_.size() && in_[at_] != '{') return str(is_positive ? "\\p" : "\\P", in_[at_++]);
  const auto end = in_.find('}', at_);
  if (end == std::string_view::npos) unsupported("\\p without }");
  std::string name(in_.substr(at_ + 1, end - at_ - 1));
  at_ = end + 1;
  if (name.starts_with("^")) {
    is_positive = !is_positive;
    name.erase(0, 1);
  }
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [long_name, short_name] : kLongNames) {
    if (lower == long_name) name = short_name;
  }
  return str(is_positive ? "\\p{" : "\\P{", name, '}');
}

// Parses an escape from the backslash on. Returns its translation within a class or outside.
std::string Translator::parse_escape(bool in_class) {
  ++at_;
  if (at_ == in_.size()) unsupported("a backslash at the end");
  const char c = in_[at_];
  if (c == 'p' || c == 'P') return property(c == 'p');
  ++at_;
  for (const SetEscape& set : kSetEscapes) {
    if (set.letter != c) continue;
    if (in_class && set.inside.empty()) unsupported(str('\\', c, " inside a class"));
    return in_class ? std::string(set.inside) : str(set.is_negated ? "[^" : "[", set.items, ']');
  }
  if (c == 'v') return "\\x0B";
  if (c == 'O' && !in_class) return "(?s:.)";
  if (c == 'b') return in_class ? "\\x08" : boundary(true);
  if (c == 'B') return boundary(false);
  if (c == 'u') return str("\\x{", read(4), '}');
  if (c == 'x' && has("{")) return "\\x" + read(in_.find('}', at_) + 1 - at_);
  if (std::string_view("KCGQE").find(c) != std::string_view::npos) unsupported(str('\\', c));
  return str('\\', c);
}

std::string Translator::read(std::size_t count) {
  if (count > in_.size() - at_) unsupported("a truncated escape");
  at_ += count;
  return std::string(in_.substr(at_ - count, count));
}

// Parses one item of a class: a character, escape, range, POSIX set or nested class.
void Translator::add_item(CharacterClass& result) {
  if (has("[:")) {
    const auto end = in_.find(":]", at_);
    if (end == std::string_view::npos) unsupported("[: without :]");
    result.add(in_.substr(at_, end + 2 - at_));
    at_ = end + 2;
  } else if (in_[at_] == '[') {
    const CharacterClass inner = parse_class();
    const auto items = inner.is_negated ? outside_of(inner) : inner.items;
    if (!items) unsupported("this negated class inside a class");
    result.add(*items);
  } else if (in_[at_] == '\\') {
    result.add(parse_escape(true));
  } else {
    result.add(in_.substr(at_++, 1));
  }
}

// Parses a class without &&, from the opening bracket to after the closing one.
CharacterClass Translator::parse_class() {
  CharacterClass result;
  ++at_;
  if (has("^")) {
    result.is_negated = true;
    ++at_;
  }
  if (has("]")) {
    result.add("\\]");
    ++at_;
  }
  while (at_ < in_.size() && in_[at_] != ']') {
    if (has("&&")) unsupported("&& in a nested class");
    add_item(result);
  }
  if (at_ == in_.size()) unsupported("a class without ]");
  ++at_;
  return result;
}

std::string Translator::bracket() {
  const std::size_t begin = at_;
  bool is_negated = false;
  std::vector<CharacterClass> parts(1);
  ++at_;
  if (has("^")) {
    is_negated = true;
    ++at_;
  }
  if (has("]")) {
    parts.back().add("\\]");
    ++at_;
  }
  while (at_ < in_.size() && in_[at_] != ']') {
    if (has("&&")) {
      at_ += 2;
      parts.emplace_back();
    } else if (in_[at_] == '[' && !has("[:") && parts.back().items.empty()) {
      // A nested class that is a whole operand of &&.
      parts.back() = parse_class();
      if (at_ < in_.size() && in_[at_] != ']' && !has("&&") && parts.back().is_negated) {
        at_ = begin;
        unsupported("this negated class inside a class");
      }
    } else {
      add_item(parts.back());
    }
  }
  if (at_ == in_.size()) unsupported("a class without ]");
  ++at_;
  if (parts.size() == 1) {
    parts[0].is_negated = parts[0].is_negated != is_negated;
    return parts[0].text();
  }
  return intersection(parts, is_negated);
}

// Ruby's flag m is PCRE2's s; PCRE2's m is always on.
void Translator::group() {
  groups_.push_back(out_.size());
  out_ += in_[at_++];
  if (!has("?")) return;
  const auto end = in_.find_first_not_of("?imx-", at_);
  if (end == std::string_view::npos || (in_[end] != ':' && in_[end] != ')')) return;
  for (; at_ < end; ++at_)
    out_ += in_[at_] == 'm' ? 's' : in_[at_];
}

// Copies a count such as {2,3}; false if the "{" is a literal.
bool Translator::repeat_count() {
  const auto end = in_.find('}', at_);
  if (end == std::string_view::npos) return false;
  const std::string_view inner = in_.substr(at_ + 1, end - at_ - 1);
  const auto comma = inner.find(',');
  const std::string_view low = inner.substr(0, comma);
  const std::string_view high =
      comma == std::string_view::npos ? std::string_view() : inner.substr(comma + 1);
  const auto all_digits = [](std::string_view text) {
    return text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!all_digits(low) || !all_digits(high) || (low.empty() && high.empty())) return false;
  out_ += str('{', low.empty() ? "0" : low, comma == std::string_view::npos ? "" : ",", high, '}');
  at_ = end + 1;
  // In Oniguruma, {n}? means optional and {n,m}+ means repeated: separate quantifiers.
  const bool is_quantified_again = has("+") || (has("?") && comma == std::string_view::npos);
  if (is_quantified_again) {
    out_.insert(atom_, "(?:");
    out_ += ')';
  }
  return true;
}

void Translator::step() {
  switch (in_[at_]) {
    case '\\':
      atom(parse_escape(false));
      break;
    case '[':
      atom(bracket());
      break;
    case '(':
      group();
      break;
    case ')':
      if (!groups_.empty()) {
        atom_ = groups_.back();
        groups_.pop_back();
      }
      out_ += in_[at_++];
      break;
    case '{':
      if (!repeat_count()) {
        atom("\\{");
        ++at_;
      }
      break;
    case '*':
    case '+':
    case '?':
      out_ += in_[at_++];
      break;
    default: {
      // Copy all bytes of the character: a quantifier applies to the whole character.
      std::size_t end = at_ + 1;
      while (end < in_.size() && (static_cast<unsigned char>(in_[end]) >> 6U) == 2)
        ++end;
      atom(in_.substr(at_, end - at_));
      at_ = end;
    }
  }
}

}  // namespace

std::string translated_pattern(std::string_view oniguruma) {
  for (const auto& [slow, fast] : kFasterPatterns) {
    if (oniguruma == slow) return Translator(fast).run();
  }
  return Translator(oniguruma).run();
}

std::string quoted_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace graft::tokenizer
