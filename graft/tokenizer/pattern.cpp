#include "graft/tokenizer/pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "graft/base/error.h"

namespace graft::tokenizer {
namespace {

// The general categories: together they are all characters, none is in two.
constexpr std::array<std::string_view, 30> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

using Names = std::pair<std::string_view, std::string_view>;

// Long names of properties that PCRE2 knows by the short one only.
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

// White_Space. PCRE2's own \s has U+180E besides.
constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kNotSpace =
    R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Cs}\p{Co}\p{Cn}\x{0}-\x{8}\x{E}-\x{1F}\x{7F}-\x{84}\x{86}-\x{9F})";
// Alphabetic characters (circled letters are, by a property that old PCRE2 lacks), marks, digits.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

// Equal patterns that do not take quadratic time where the first ones do: a run of spaces is looked
// at once, not once for each of its spaces.
constexpr std::array<Names, 2> kFasterPatterns = {{
    {R"(\s+$)", R"((?<!\s)\s+$)"},
    {R"(\s++$)", R"((?<!\s)\s++$)"},
}};

struct CharacterClass {
  bool is_negated = false;
  std::string items;  // as they stand between brackets
  // The categories that are all of it; nothing when it has other items.
  std::optional<std::vector<std::string_view>> categories = std::vector<std::string_view>{};

  std::string text() const { return str('[', is_negated ? "^" : "", items, ']'); }
};

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
  // Begins an atom, to which a quantifier may belong.
  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }
  std::string take_escape(bool in_class);
  std::string property(bool is_positive);
  void step();
  void group();
  bool repeat_count();
  CharacterClass parse_class();
  void add_item(CharacterClass& result);
  void add_property(CharacterClass& result, const std::string& text);
  std::string bracket();
  static std::optional<std::string> complement(const CharacterClass& of);
  std::string intersection(const std::vector<CharacterClass>& parts, bool is_negated) const;

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // where the last atom begins in out_
  std::vector<std::size_t> groups_;  // where the open groups begin in out_
};

// At "p{…}" or "pL", after the backslash.
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

// At the backslash. Returns what stands for it between brackets, or outside of them.
std::string Translator::take_escape(bool in_class) {
  ++at_;
  if (at_ == in_.size()) unsupported("a backslash at the end");
  const auto set = [in_class](std::string_view items, bool is_negated) {
    return in_class ? std::string(items) : str(is_negated ? "[^" : "[", items, ']');
  };
  const char c = in_[at_];
  if (c == 'p' || c == 'P') return property(c == 'p');
  ++at_;
  switch (c) {
    case 's':
      return set(kSpace, false);
    case 'S':
      return in_class ? std::string(kNotSpace) : set(kSpace, true);
    case 'w':
      return set(kWord, false);
    case 'W':
      if (in_class) unsupported("\\W inside a class");
      return set(kWord, true);
    case 'h':
      return set("0-9a-fA-F", false);
    case 'H':
      if (in_class) unsupported("\\H inside a class");
      return set("0-9a-fA-F", true);
    case 'v':
      return "\\x0B";
    case 'O':
      if (in_class) unsupported("\\O inside a class");
      return "(?s:.)";
    case 'b':
      if (in_class) return "\\x08";
      return str("(?:(?<=[", kWord, "])(?![", kWord, "])|(?<![", kWord, "])(?=[", kWord, "]))");
    case 'B':
      return str("(?:(?<=[", kWord, "])(?=[", kWord, "])|(?<![", kWord, "])(?![", kWord, "]))");
    case 'u': {
      const std::string digits(in_.substr(at_, 4));
      if (digits.size() != 4) unsupported("\\u without four digits");
      at_ += 4;
      return str("\\x{", digits, '}');
    }
    case 'x': {
      if (!has("{")) return "\\x";
      const auto end = in_.find('}', at_);
      if (end == std::string_view::npos) unsupported("\\x{ without }");
      const std::string digits(in_.substr(at_, end + 1 - at_));
      at_ = end + 1;
      return "\\x" + digits;
    }
    case 'K':
    case 'C':
    case 'G':
    case 'Q':
    case 'E':
      unsupported(str('\\', c));
    default:
      return str('\\', c);
  }
}

void Translator::add_property(CharacterClass& result, const std::string& text) {
  result.items += text;
  const std::string_view name = std::string_view(text).substr(3, text.size() - 4);
  bool is_category = false;
  for (const std::string_view category : kCategories) {
    if (!text.starts_with("\\p{") || !category.starts_with(name)) continue;
    is_category = true;
    if (result.categories) result.categories->push_back(category);
  }
  if (!is_category) result.categories.reset();
}

// One character, escape, range, named set or class inside the class.
void Translator::add_item(CharacterClass& result) {
  if (has("[:")) {
    const auto end = in_.find(":]", at_);
    if (end == std::string_view::npos) unsupported("[: without :]");
    result.items += in_.substr(at_, end + 2 - at_);
    at_ = end + 2;
    result.categories.reset();
  } else if (in_[at_] == '[') {
    const CharacterClass inner = parse_class();
    const auto items = inner.is_negated ? complement(inner) : inner.items;
    if (!items) unsupported("this negated class inside a class");
    result.items += *items;
    result.categories.reset();
  } else if (in_[at_] == '\\') {
    const std::string item = take_escape(true);
    if (item.starts_with("\\p{") && item.ends_with("}") && item.find('}') == item.size() - 1) {
      add_property(result, item);
    } else {
      result.items += item;
      result.categories.reset();
    }
  } else {
    result.items += in_[at_++];
    result.categories.reset();
  }
}

// Without &&, from the opening bracket past the closing one.
CharacterClass Translator::parse_class() {
  CharacterClass result;
  ++at_;
  if (has("^")) {
    result.is_negated = true;
    ++at_;
  }
  if (has("]")) {
    result.items += "\\]";
    result.categories.reset();
    ++at_;
  }
  while (at_ < in_.size() && in_[at_] != ']') {
    if (has("&&")) unsupported("&& at this place");
    add_item(result);
  }
  if (at_ == in_.size()) unsupported("a class without ]");
  ++at_;
  return result;
}

// Items that are all characters outside the class.
std::optional<std::string> Translator::complement(const CharacterClass& of) {
  if (of.is_negated) return of.items;
  if (!of.categories) return std::nullopt;
  std::string items;
  for (const std::string_view category : kCategories) {
    if (std::ranges::find(*of.categories, category) == of.categories->end()) {
      items += str("\\p{", category, '}');
    }
  }
  return items;
}

// One class where it can be said: a and b is not (not a or not b). Otherwise by looking ahead,
// which is right too, only slower.
std::string Translator::intersection(const std::vector<CharacterClass>& parts,
                                     bool is_negated) const {
  std::string outside;
  bool is_one_class = true;
  for (const CharacterClass& part : parts) {
    const auto items = complement(part);
    is_one_class = is_one_class && items.has_value();
    if (items) outside += *items;
  }
  if (is_one_class) return str(is_negated ? "[" : "[^", outside, ']');
  std::string ahead;
  for (const CharacterClass& part : parts)
    ahead += str("(?=", part.text(), ')');
  return is_negated ? str("(?:(?!", ahead, ")(?s:.))") : str("(?:", ahead, "(?s:.))");
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
    parts.back().items += "\\]";
    parts.back().categories.reset();
    ++at_;
  }
  while (at_ < in_.size() && in_[at_] != ']') {
    if (has("&&")) {
      at_ += 2;
      parts.emplace_back();
    } else if (in_[at_] == '[' && !has("[:") && parts.back().items.empty()) {
      // A class that is all of this side.
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

// Ruby's m is what PCRE2 calls s; its own m always holds.
void Translator::group() {
  groups_.push_back(out_.size());
  out_ += in_[at_++];
  if (!has("?")) return;
  const auto end = in_.find_first_not_of("?imx-", at_);
  if (end == std::string_view::npos || (in_[end] != ':' && in_[end] != ')')) return;
  for (; at_ < end; ++at_)
    out_ += in_[at_] == 'm' ? 's' : in_[at_];
}

// At "{": whether a count like {2,3} stands here; it is copied then.
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
  // {n}? is "{n} or nothing" here, {n,m}+ "one or more of these": quantifiers of their own.
  const bool repeats_again = has("+") || (has("?") && comma == std::string_view::npos);
  if (repeats_again) {
    out_.insert(atom_, "(?:");
    out_ += ')';
  }
  return true;
}

void Translator::step() {
  switch (in_[at_]) {
    case '\\':
      atom(take_escape(false));
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
      // All bytes of a character: a quantifier belongs to the whole of it.
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
