#include "graft/grammar/json_schema/json_text.h"

#include <memory>
#include <utility>
#include <vector>

namespace graft::grammar::json {
namespace {

constexpr std::int64_t kMaxIndent = 32;

std::vector<Dfa::ByteText> make_escapes() {
  std::vector<Dfa::ByteText> escapes = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                                        {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (std::uint8_t byte = 0; byte < 0x20; ++byte) {
    if ((byte >= 8 && byte <= 10) || byte == 12 || byte == 13) continue;
    std::string text = "\\u00";
    text += kDigits[byte / 16U];
    text += kDigits[byte % 16U];
    escapes.push_back({byte, std::move(text)});
  }
  return escapes;
}

const std::vector<Dfa::ByteText>& escapes() {
  static const std::vector<Dfa::ByteText> all = make_escapes();
  return all;
}

Expr digit_range(char first, char last) {
  return bytes({{static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)}});
}

Expr digits() {
  return repeat(digit_range('0', '9'), 1);
}

Expr natural() {
  return any_of(
      {literal("0"), sequence({digit_range('1', '9'), repeat(digit_range('0', '9'), 0)})});
}

}  // namespace

Expr blank() {
  static const Expr expression = optional(any_of(
      {literal(" "),
       sequence({literal("\n"), repeat(bytes({{' ', ' '}, {'\t', '\t'}}), 0, kMaxIndent)})}));
  return expression;
}

Expr free_character(std::vector<CodeRange> more) {
  const Expr hex = bytes({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
  more.insert(more.end(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  const Expr plain = code_points_except(std::move(more));
  const Expr escaped = sequence({literal("\\"), bytes({{'"', '"'},
                                                       {'\\', '\\'},
                                                       {'/', '/'},
                                                       {'b', 'b'},
                                                       {'f', 'f'},
                                                       {'n', 'n'},
                                                       {'r', 'r'},
                                                       {'t', 't'}})});
  // Surrogates only in pairs.
  const Expr d = bytes({{'d', 'd'}, {'D', 'D'}});
  const Expr unit =
      any_of({sequence({bytes({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), hex,
                        hex, hex}),
              sequence({d, digit_range('0', '7'), hex, hex}),
              sequence({d, bytes({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), hex, hex, literal("\\u"), d,
                        bytes({{'c', 'f'}, {'C', 'F'}}), hex, hex})});
  return any_of({plain, escaped, sequence({literal("\\u"), unit})});
}

Expr free_string() {
  static const Expr expression =
      sequence({literal("\""), repeat(free_character(), 0), literal("\"")});
  return expression;
}

Expr free_integer() {
  static const Expr expression = sequence({optional(literal("-")), natural()});
  return expression;
}

Expr free_number() {
  static const Expr expression =
      sequence({free_integer(), optional(sequence({literal("."), digits()})),
                optional(sequence({bytes({{'e', 'e'}, {'E', 'E'}}),
                                   optional(bytes({{'+', '+'}, {'-', '-'}})), digits()}))});
  return expression;
}

Expr quoted_string(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    std::string shown(1, c);
    for (const Dfa::ByteText& escape : escapes())
      if (static_cast<std::uint8_t>(c) == escape.byte) shown = escape.text;
    text += shown;
  }
  return literal(text + "\"");
}

Expr quoted_string(const Dfa& values) {
  return sequence({literal("\""),
                   regular(std::make_shared<const Dfa>(values.with_texts(escapes()))),
                   literal("\"")});
}

const Dfa& all_strings() {
  static const Dfa dfa(repeat(code_points({{0, kMaxCodePoint}}), 0));
  return dfa;
}

Expr boolean(bool value, bool is_python) {
  const Expr plain = literal(value ? "true" : "false");
  return is_python ? any_of({plain, literal(value ? "True" : "False")}) : plain;
}

Expr null_value(bool is_python) {
  return is_python ? any_of({literal("null"), literal("None")}) : literal("null");
}

Expr without_tags(const Expr& quoted) {
  const Expr any = repeat(bytes({{0, 0xFF}}), 0);
  static const Dfa tags(sequence({any, literal("</"), any}));
  return regular(std::make_shared<const Dfa>(difference(Dfa(quoted), tags)));
}

RuleId add_any_value(RuleSet& rules, const Expr& string_text, bool is_python) {
  const RuleId value = rules.add("json-value");
  const RuleId string = rules.add("json-string");
  rules.define(string, string_text);
  const Expr comma = sequence({literal(","), blank()});
  const auto list = [&](const Expr& item) {
    return optional(sequence({item, repeat(sequence({comma, item}), 0)}));
  };
  const Expr entry = sequence({rule(string), literal(":"), blank(), rule(value)});
  rules.define(value,
               any_of({sequence({literal("{"), blank(), list(entry), blank(), literal("}")}),
                       sequence({literal("["), blank(), list(rule(value)), blank(), literal("]")}),
                       rule(string), free_number(), boolean(true, is_python),
                       boolean(false, is_python), null_value(is_python)}));
  return value;
}

}  // namespace graft::grammar::json
