#include "graft/grammar/regex_parser.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "graft/base/error.h"

namespace graft::grammar {
namespace {

constexpr int kMaxNesting = 200;
constexpr std::int64_t kMaxCount = 100'000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::vector<CodeRange> complement(const std::vector<CodeRange>& sorted) {
  std::vector<CodeRange> others;
  std::uint32_t next = 0;
  for (const CodeRange& range : sorted) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  others.push_back({next, kMaxCodePoint});
  return others;
}

const std::vector<CodeRange>& digits() {
  static const std::vector<CodeRange> ranges = {{'0', '9'}};
  return ranges;
}

const std::vector<CodeRange>& word_characters() {
  static const std::vector<CodeRange> ranges = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return ranges;
}

const std::vector<CodeRange>& blanks() {
  static const std::vector<CodeRange> ranges = {
      {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return ranges;
}

}  // namespace

template <class... Parts>
void RegexParser::fail_at(std::size_t position, const Parts&... parts) const {
  fail("at ", position, ": ", parts...);
}

bool RegexParser::take(char c) {
  if (is_done() || peek() != c) return false;
  ++position_;
  return true;
}

bool RegexParser::take(std::string_view text) {
  if (!pattern_.substr(position_).starts_with(text)) return false;
  position_ += text.size();
  return true;
}

std::uint32_t RegexParser::take_code_point() {
  const std::size_t begin = position_;
  const auto lead = static_cast<std::uint8_t>(pattern_[position_++]);
  if (lead < 0x80) return lead;
  const int num_more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  std::uint32_t code_point = lead & (0x3FU >> static_cast<unsigned>(num_more));
  for (int i = 0; i < num_more; ++i) {
    const auto byte = is_done() ? std::uint8_t{0} : static_cast<std::uint8_t>(peek());
    if (lead < 0xC2 || (byte & 0xC0U) != 0x80U) fail_at(begin, "invalid UTF-8");
    code_point = (code_point << 6U) | (byte & 0x3FU);
    ++position_;
  }
  return code_point;
}

RegexParser::Result RegexParser::parse() {
  std::vector<Expr> all = terms();
  Result result;
  if (is_done()) {  // one alternative: anchors at its ends need no marks
    while (!all.empty() && all.front() == begin_) {
      all.erase(all.begin());
      result.is_begin_anchored = true;
      --num_marks_;
    }
    while (!all.empty() && all.back() == end_) {
      all.pop_back();
      result.is_end_anchored = true;
      --num_marks_;
    }
    result.body = sequence(std::move(all));
  } else {
    std::vector<Expr> parts = {sequence(std::move(all))};
    while (take('|'))
      parts.push_back(sequence(terms()));
    if (!is_done()) fail_at(position_, "unmatched )");
    result.body = any_of(std::move(parts));
  }
  result.has_marks = num_marks_ > 0;
  return result;
}

Expr RegexParser::alternatives() {
  std::vector<Expr> parts;
  do {
    parts.push_back(sequence(terms()));
  } while (take('|'));
  return any_of(std::move(parts));
}

std::vector<Expr> RegexParser::terms() {
  std::vector<Expr> parts;
  while (!is_done() && peek() != '|' && peek() != ')')
    parts.push_back(term());
  return parts;
}

Expr RegexParser::term() {
  const std::size_t begin = position_;
  const bool is_begin = take('^') || take("\\A");
  if (is_begin || take('$') || take("\\z") || take("\\Z")) {
    if (!is_done() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{'))
      fail_at(begin, "a repeated anchor is not supported");
    ++num_marks_;
    return is_begin ? begin_ : end_;
  }
  return quantified(atom());
}

Expr RegexParser::atom() {
  const std::size_t begin = position_;
  if (take('(')) return group();
  if (take('[')) return character_class();
  if (take('\\')) return escape();
  if (take('.')) return code_points_except({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
  if (peek() == '*' || peek() == '+' || peek() == '?') fail_at(begin, "nothing to repeat");
  if (peek() == '{' && braces()) fail_at(begin, "nothing to repeat");
  position_ = begin;
  std::string text;
  append_utf8(text, take_code_point());
  return literal(text);
}

Expr RegexParser::group() {
  const std::size_t begin = position_ - 1;
  if (take('?')) {
    if (take("=") || take("!") || take("<=") || take("<!"))
      fail_at(begin, "lookaround is not supported");
    if (take('<') || take("P<")) {
      const std::size_t close = pattern_.find('>', position_);
      if (close == std::string_view::npos) fail_at(begin, "the name of a group has no >");
      position_ = close + 1;
    } else if (!take(':')) {
      fail_at(begin, "this kind of group is not supported");
    }
  }
  if (++depth_ > kMaxNesting) fail_at(begin, "groups are nested more than ", kMaxNesting, " deep");
  Expr body = alternatives();
  --depth_;
  if (!take(')')) fail_at(begin, "unmatched (");
  // Of another address than the anchors themselves, which parse() looks for.
  return any_of({body, nothing()});
}

Expr RegexParser::escape() {
  const std::size_t begin = position_ - 1;
  if (is_done()) fail_at(begin, "the pattern ends with a backslash");
  if (const auto ranges = class_escape(peek())) {
    ++position_;
    return code_points(*ranges);
  }
  if (peek() == 'b' || peek() == 'B') fail_at(begin, "\\", peek(), " is not supported");
  if (peek() == 'p' || peek() == 'P') fail_at(begin, "\\", peek(), " is not supported");
  if (peek() == 'k' || (is_digit(peek()) && peek() != '0'))
    fail_at(begin, "backreferences are not supported");
  std::string text;
  append_utf8(text, character_escape());
  return literal(text);
}

std::optional<RegexParser::CodeRanges> RegexParser::class_escape(char letter) const {
  switch (letter) {
    case 'd':
      return digits();
    case 'D':
      return complement(digits());
    case 'w':
      return word_characters();
    case 'W':
      return complement(word_characters());
    case 's':
      return blanks();
    case 'S':
      return complement(blanks());
    default:
      return std::nullopt;
  }
}

// After the backslash.
std::uint32_t RegexParser::character_escape() {
  const std::size_t begin = position_ - 1;
  const char letter = pattern_[position_++];
  constexpr std::string_view kLetters = "nrtfv0ae";
  constexpr std::string_view kCharacters("\n\r\t\f\v\0\a\x1B", kLetters.size());
  const std::size_t at = kLetters.find(letter);
  if (at != std::string_view::npos) return static_cast<std::uint8_t>(kCharacters[at]);
  if (letter == 'x') return !is_done() && peek() == '{' ? hex_braces() : hex_digits(2);
  if (letter == 'u') return unicode_escape();
  if (letter == 'U') return hex_digits(8);
  if (letter == 'c' && !is_done()) return static_cast<std::uint8_t>(pattern_[position_++]) & 0x1FU;
  const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
  if (is_letter || is_digit(letter)) fail_at(begin, "\\", letter, " is not supported");
  --position_;
  return take_code_point();
}

std::uint32_t RegexParser::hex_digits(int count) {
  std::uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    const int digit = is_done() ? -1 : hex_value(peek());
    if (digit < 0) fail_at(position_, "expected ", count, " hexadecimal digits");
    value = value * 16 + static_cast<std::uint32_t>(digit);
    ++position_;
  }
  if (value > kMaxCodePoint) fail_at(position_, "above the last code point");
  return value;
}

std::uint32_t RegexParser::hex_braces() {
  const std::size_t begin = position_++;
  std::uint32_t value = 0;
  while (!is_done() && hex_value(peek()) >= 0 && value <= kMaxCodePoint)
    value = value * 16 + static_cast<std::uint32_t>(hex_value(pattern_[position_++]));
  if (!take('}') || value > kMaxCodePoint) fail_at(begin, "not a code point");
  return value;
}

std::uint32_t RegexParser::unicode_escape() {
  if (!is_done() && peek() == '{') return hex_braces();
  const std::size_t begin = position_;
  const std::uint32_t high = hex_digits(4);
  if (high < 0xD800 || high > 0xDFFF) return high;
  std::uint32_t low = 0;
  if (take("\\u")) low = hex_digits(4);
  if (high > 0xDBFF || low < 0xDC00 || low > 0xDFFF) fail_at(begin, "half of a surrogate pair");
  return 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00);
}

Expr RegexParser::character_class() {
  const std::size_t begin = position_ - 1;
  const bool is_negated = take('^');
  CodeRanges ranges;
  while (true) {
    if (is_done()) fail_at(begin, "unmatched [");
    if (take(']')) break;
    std::uint32_t first = 0;
    if (!class_item(ranges, first)) continue;
    std::uint32_t last = first;
    const bool is_range = pattern_.substr(position_).starts_with('-') &&
                          !pattern_.substr(position_).starts_with("-]");
    if (is_range) {
      const std::size_t dash = position_++;
      if (is_done()) fail_at(begin, "unmatched [");
      if (!class_item(ranges, last)) {  // [a-\d]: the dash is a character
        ranges.push_back({'-', '-'});
        last = first;
      } else if (last < first) {
        fail_at(dash, "the range ends before it begins");
      }
    }
    ranges.push_back({first, last});
  }
  return is_negated ? code_points_except(std::move(ranges)) : code_points(std::move(ranges));
}

// One character; false when it was a class such as \d, whose ranges are added.
bool RegexParser::class_item(CodeRanges& ranges, std::uint32_t& code_point) {
  const std::size_t begin = position_;
  if (take("[:")) fail_at(begin, "POSIX classes are not supported");
  if (!take('\\')) {
    code_point = take_code_point();
    return true;
  }
  if (is_done()) fail_at(begin, "the pattern ends with a backslash");
  if (const auto added = class_escape(peek())) {
    ++position_;
    ranges.insert(ranges.end(), added->begin(), added->end());
    return false;
  }
  if (take('b')) {
    code_point = '\b';
  } else {
    code_point = character_escape();
  }
  return true;
}

std::optional<std::int64_t> RegexParser::number() {
  if (is_done() || !is_digit(peek())) return std::nullopt;
  std::int64_t value = 0;
  while (!is_done() && is_digit(peek())) {
    value = std::min(value * 10 + (pattern_[position_++] - '0'), std::int64_t{kMaxCount + 1});
  }
  return value;
}

// {m}, {m,} or {m,n}; otherwise nothing is read: the brace is a character.
std::optional<std::pair<std::int64_t, std::int64_t>> RegexParser::braces() {
  const std::size_t begin = position_;
  const auto reset = [&] {
    position_ = begin;
    return std::nullopt;
  };
  ++position_;
  const std::optional<std::int64_t> min = number();
  if (!min) return reset();
  std::optional<std::int64_t> max = min;
  if (take(',')) max = number();
  if (!take('}')) return reset();
  if (*min > kMaxCount || max.value_or(0) > kMaxCount)
    fail_at(begin, "repeated more than ", kMaxCount, " times");
  if (max && *max < *min) fail_at(begin, "the maximum is below the minimum");
  return std::pair(*min, max.value_or(kUnlimited));
}

Expr RegexParser::quantified(Expr body) {
  while (!is_done()) {
    const std::size_t begin = position_;
    if (take('*')) {
      body = repeat(std::move(body), 0);
    } else if (take('+')) {
      body = repeat(std::move(body), 1);
    } else if (take('?')) {
      body = optional(std::move(body));
    } else if (peek() == '{') {
      const auto counts = braces();
      if (!counts) return body;
      body = repeat(std::move(body), counts->first, counts->second);
    } else {
      return body;
    }
    take('?');  // lazy: the same texts match
    if (!is_done() && (peek() == '*' || peek() == '+' || peek() == '?'))
      fail_at(begin, "possessive and repeated quantifiers are not supported");
  }
  return body;
}

}  // namespace graft::grammar
