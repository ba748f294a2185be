#include "graft/grammar/gbnf.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/grammar/dfa.h"
#include "graft/grammar/json_schema/arguments.h"
#include "graft/grammar/json_schema/json_schema.h"
#include "graft/grammar/json_schema/json_text.h"
#include "graft/grammar/regex.h"

namespace graft::grammar {
namespace {

constexpr int kMaxGroups = 200;
constexpr std::int64_t kMaxTimes = 100'000;
constexpr std::size_t kMaxJsonValues = 100'000;
constexpr std::size_t kShownBytes = 12;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(RuleSet& rules, std::string_view text, std::span<const SpecialToken> tokens)
      : rules_(rules), text_(text), tokens_(tokens) {}

  RuleId parse() {
    skip_blanks(true);
    while (!is_done())
      parse_rule();
    for (const auto& [name, id] : ids_)
      if (rules_.body(id) == nullptr) fail("grammar: rule ", name, " is not defined");
    const auto root = ids_.find("root");
    if (root == ids_.end()) fail("grammar: no rule is named root");
    return root->second;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail_here(const Parts&... parts) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, position_), '\n');
    fail("grammar: line ", line, ": ", parts...);
  }
  bool is_done() const { return position_ == text_.size(); }
  char peek() const { return is_done() ? '\0' : text_[position_]; }
  bool take(std::string_view expected) {
    if (!text_.substr(position_).starts_with(expected)) return false;
    position_ += expected.size();
    return true;
  }

  // Spaces and comments, and line ends where a rule may go on.
  void skip_blanks(bool with_lines) {
    while (!is_done()) {
      if (peek() == '#') {
        while (!is_done() && peek() != '\n' && peek() != '\r')
          ++position_;
      } else if (peek() == ' ' || peek() == '\t' ||
                 (with_lines && (peek() == '\n' || peek() == '\r'))) {
        ++position_;
      } else {
        return;
      }
    }
  }

  std::string name() {
    const std::size_t begin = position_;
    while (!is_done() && is_name_character(peek()))
      ++position_;
    if (begin == position_) fail_here("expected a name");
    return std::string(text_.substr(begin, position_ - begin));
  }

  RuleId id_of(const std::string& rule_name) {
    const auto found = ids_.find(rule_name);
    if (found != ids_.end()) return found->second;
    return ids_.emplace(rule_name, rules_.add(rule_name)).first->second;
  }

  void parse_rule() {
    const std::string rule_name = name();
    const RuleId id = id_of(rule_name);
    if (rules_.body(id) != nullptr) fail_here("rule ", rule_name, " is defined twice");
    skip_blanks(false);
    if (!take("::=")) fail_here("expected ::= after ", rule_name);
    skip_blanks(true);
    rules_.define(id, alternatives(false));
    if (!is_done() && peek() != '\n' && peek() != '\r') fail_here("unexpected ", peek());
    skip_blanks(true);
  }

  Expr alternatives(bool is_group) {
    std::vector<Expr> parts = {terms(is_group)};
    while (take("|")) {
      skip_blanks(true);
      parts.push_back(terms(is_group));
    }
    return any_of(std::move(parts));
  }

  Expr terms(bool is_group) {
    std::vector<Expr> parts;
    while (!is_done() && peek() != '|' && peek() != ')' && peek() != '\n' && peek() != '\r') {
      Expr part = atom();
      // A repetition follows directly.
      part = repeated(std::move(part), is_group);
      parts.push_back(std::move(part));
    }
    return sequence(std::move(parts));
  }

  Expr atom() {
    if (take("\"")) return literal(quoted());
    if (take("[")) return character_class();
    if (take(".")) return code_points({{0, kMaxCodePoint}});
    if (take("%")) return extension();
    if (take("(")) {
      if (++depth_ > kMaxGroups) fail_here("groups are nested more than ", kMaxGroups, " deep");
      skip_blanks(true);
      Expr body = alternatives(true);
      if (!take(")")) fail_here("expected )");
      --depth_;
      return body;
    }
    if (!is_name_character(peek())) fail_here("unexpected ", peek());
    return rule(id_of(name()));
  }

  Expr repeated(Expr body, bool is_group) {
    while (true) {
      skip_blanks(is_group);
      if (take("*")) {
        body = repeat(std::move(body), 0);
      } else if (take("+")) {
        body = repeat(std::move(body), 1);
      } else if (take("?")) {
        body = optional(std::move(body));
      } else if (take("{")) {
        const std::int64_t min = count();
        skip_blanks(is_group);
        std::int64_t max = min;
        if (take(",")) {
          skip_blanks(is_group);
          max = peek() == '}' ? kUnlimited : count();
          skip_blanks(is_group);
        }
        if (!take("}")) fail_here("expected }");
        if (max != kUnlimited && max < min) fail_here("the maximum is below the minimum");
        body = repeat(std::move(body), min, max);
      } else {
        return body;
      }
    }
  }

  std::int64_t count() {
    skip_blanks(false);
    if (peek() < '0' || peek() > '9') fail_here("expected a number");
    std::int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (text_[position_++] - '0');
      if (value > kMaxTimes) fail_here("repeated more than ", kMaxTimes, " times");
    }
    return value;
  }

  // The rest of a text in quotes.
  std::string quoted() {
    std::string content;
    while (!take("\"")) {
      if (is_done() || peek() == '\n') fail_here("expected \"");
      append_utf8(content, character());
    }
    return content;
  }

  Expr character_class() {
    const bool is_negated = take("^");
    std::vector<CodeRange> ranges;
    while (!take("]")) {
      if (is_done()) fail_here("expected ]");
      const std::uint32_t first = character();
      std::uint32_t last = first;
      if (peek() == '-' && !text_.substr(position_).starts_with("-]")) {
        ++position_;
        if (is_done()) fail_here("expected ]");
        last = character();
      }
      if (last < first) fail_here("a range ends before it begins");
      ranges.push_back({first, last});
    }
    return is_negated ? code_points_except(std::move(ranges)) : code_points(std::move(ranges));
  }

  std::uint32_t character() {
    if (take("\\")) return escape();
    const auto lead = static_cast<std::uint8_t>(text_[position_++]);
    if (lead < 0x80) return lead;
    const int num_more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    std::uint32_t code_point = lead & (0x3FU >> static_cast<unsigned>(num_more));
    for (int i = 0; i < num_more; ++i) {
      const auto byte = static_cast<std::uint8_t>(peek());
      if (lead < 0xC2 || (byte & 0xC0U) != 0x80U) fail_here("invalid UTF-8");
      code_point = (code_point << 6U) | (byte & 0x3FU);
      ++position_;
    }
    return code_point;
  }

  std::uint32_t escape() {
    const char letter = peek();
    if (is_done()) fail_here("the grammar ends with a backslash");
    ++position_;
    switch (letter) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<std::uint8_t>(letter);
      default:
        fail_here("unknown escape \\", letter);
    }
  }

  std::uint32_t hex(int num_digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < num_digits; ++i) {
      constexpr std::string_view kDigits = "0123456789abcdef0123456789ABCDEF";
      const std::size_t digit = is_done() ? std::string_view::npos : kDigits.find(peek());
      if (digit == std::string_view::npos)
        fail_here("expected ", num_digits, " hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(digit % 16);
      ++position_;
    }
    if (value > kMaxCodePoint) fail_here("above the last code point");
    return value;
  }

  Expr extension() {
    if (take("json")) return rule(add_json_schema(rules_, json_object("%json")));
    if (take("special")) return text_with_tokens(text_argument("%special"), tokens_);
    if (take("without")) return text_without(text_argument("%without"));
    if (take("arguments")) return rule(add_arguments(rules_, json_object("%arguments"), tokens_));
    fail_here("unknown extension %", std::string(text_.substr(position_, kShownBytes)));
  }

  std::string text_argument(const char* extension) {
    skip_blanks(true);
    if (!take("\"")) fail_here("expected a text in quotes after ", extension);
    return quoted();
  }

  Expr text_without(const std::string& pattern) const {
    try {
      const Dfa found(regex_search(pattern));
      return regular(std::make_shared<const Dfa>(difference(json::all_strings(), found)));
    } catch (const Error& error) {
      fail_here("%without: ", error.what());
    }
  }

  OrderedJson json_object(const char* extension) {
    skip_blanks(true);
    const std::size_t begin = position_;
    int open = 0;
    bool is_quoted = false;
    do {
      if (is_done()) fail_here("the object after ", extension, " has no end");
      const char c = text_[position_++];
      if (is_quoted) {
        if (c == '\\' && !is_done()) ++position_;
        is_quoted = c != '"';
      } else if (c == '"') {
        is_quoted = true;
      } else if (c == '{' || c == '[') {
        ++open;
      } else if (c == '}' || c == ']') {
        --open;
      }
    } while (open > 0 || is_quoted);
    const std::string_view value = text_.substr(begin, position_ - begin);
    if (!value.starts_with('{')) fail_here("expected an object after ", extension);
    return parse_ordered_json(value, str("grammar: ", extension), kMaxJsonValues);
  }

  RuleSet& rules_;
  std::string_view text_;
  std::span<const SpecialToken> tokens_;
  std::size_t position_ = 0;
  int depth_ = 0;
  std::map<std::string, RuleId> ids_;
};

}  // namespace

RuleId add_gbnf(RuleSet& rules, std::string_view text, std::span<const SpecialToken> tokens) {
  return GbnfParser(rules, text, tokens).parse();
}

}  // namespace graft::grammar
