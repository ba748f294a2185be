#include "graft/grammar/json_schema/numbers.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "graft/base/error.h"

namespace graft::grammar::json {
namespace {

constexpr std::int64_t kMaxExponent = 350;

// |x| as digits before and after the point.
struct Decimal {
  bool is_negative = false;
  std::string whole = {};     // without leading zeros, "0" if none
  std::string fraction = {};  // without final zeros
};

Decimal parse_decimal(std::string_view text) {
  Decimal out;
  if (text.starts_with('-')) {
    out.is_negative = true;
    text.remove_prefix(1);
  }
  std::int64_t exponent = 0;
  const std::size_t at = text.find_first_of("eE");
  if (at != std::string_view::npos) {
    exponent = std::strtol(std::string(text.substr(at + 1)).c_str(), nullptr, 10);
    text = text.substr(0, at);
  }
  if (exponent > kMaxExponent || exponent < -kMaxExponent)
    fail("the number ", text, " has too many digits");
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  if (point < text.size()) digits += text.substr(point + 1);
  std::int64_t num_whole = static_cast<std::int64_t>(point) + exponent;
  if (num_whole < 0) {
    digits.insert(0, static_cast<std::size_t>(-num_whole), '0');
    num_whole = 0;
  }
  if (num_whole > static_cast<std::int64_t>(digits.size()))
    digits.append(static_cast<std::size_t>(num_whole) - digits.size(), '0');
  out.whole = digits.substr(0, static_cast<std::size_t>(num_whole));
  out.fraction = digits.substr(static_cast<std::size_t>(num_whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  if (out.whole.empty()) out.whole = "0";
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.whole == "0" && out.fraction.empty()) out.is_negative = false;
  return out;
}

Expr digit(char first, char last) {
  return bytes({{static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)}});
}

Expr some_digits(std::int64_t min, std::int64_t max = kUnlimited) {
  return repeat(digit('0', '9'), min, max);
}

Expr any_fraction() {
  return optional(sequence({literal("."), some_digits(0), digit('1', '9')}));
}

Expr whole_number() {
  return any_of({literal("0"), sequence({digit('1', '9'), some_digits(0)})});
}

const Dfa& magnitudes() {
  static const Dfa dfa(sequence({whole_number(), any_fraction()}));
  return dfa;
}

Dfa negated(const Dfa& numbers) {
  const Dfa all(sequence({literal("-"), regular(std::make_shared<const Dfa>(numbers))}));
  return difference(all, Dfa(literal("-0")));
}

// The texts that begin as `digits` up to one digit, which is greater.
void add_greater(std::vector<Expr>& parts,
                 const std::string& prefix,
                 const std::string& digits,
                 const std::vector<Expr>& rest_of) {
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] == '9') continue;
    parts.push_back(sequence({literal(prefix + digits.substr(0, i)),
                              digit(static_cast<char>(digits[i] + 1), '9'), rest_of[i]}));
  }
}

Dfa magnitudes_from(const Decimal& bound, bool is_exclusive) {
  const auto num_whole = static_cast<std::int64_t>(bound.whole.size());
  const Expr any_digits = some_digits(0);
  const Expr fraction = optional(sequence({literal("."), some_digits(1)}));
  std::vector<Expr> parts = {sequence({digit('1', '9'), some_digits(num_whole), fraction})};
  std::vector<Expr> rests;
  for (std::int64_t i = 1; i <= num_whole; ++i)
    rests.push_back(sequence({some_digits(num_whole - i, num_whole - i), fraction}));
  add_greater(parts, "", bound.whole, rests);
  const std::string prefix = bound.whole + ".";
  add_greater(parts, prefix, bound.fraction, std::vector<Expr>(bound.fraction.size(), any_digits));
  parts.push_back(sequence({literal(prefix + bound.fraction), some_digits(1)}));
  if (!is_exclusive)
    parts.push_back(literal(bound.fraction.empty() ? bound.whole : prefix + bound.fraction));
  return intersection(Dfa(any_of(std::move(parts))), magnitudes());
}

Dfa magnitudes_up_to(const Decimal& bound, bool is_exclusive) {
  return difference(magnitudes(), magnitudes_from(bound, !is_exclusive));
}

}  // namespace

std::string decimal_text(const OrderedJson& number) {
  const Decimal value = parse_decimal(number.dump());
  std::string text = (value.is_negative ? "-" : "") + value.whole;
  if (!value.fraction.empty()) text += "." + value.fraction;
  return text;
}

const Dfa& all_numbers() {
  static const Dfa dfa = union_of(magnitudes(), negated(magnitudes()));
  return dfa;
}

const Dfa& all_integers() {
  static const Dfa dfa = [] {
    const Dfa naturals(whole_number());
    return union_of(naturals, negated(naturals));
  }();
  return dfa;
}

Dfa numbers_from(const std::string& minimum, bool is_exclusive) {
  const Decimal bound = parse_decimal(minimum);
  if (!bound.is_negative) return magnitudes_from(bound, is_exclusive);
  return union_of(magnitudes(), negated(magnitudes_up_to(bound, is_exclusive)));
}

Dfa numbers_up_to(const std::string& maximum, bool is_exclusive) {
  const Decimal bound = parse_decimal(maximum);
  if (bound.is_negative) return negated(magnitudes_from(bound, is_exclusive));
  return union_of(negated(magnitudes()), magnitudes_up_to(bound, is_exclusive));
}

// Digits after the point scale the number by 10 each: with all of them it must be a multiple of the
// divisor's digits. States: the remainder after the digits so far, before the point, at it, and
// after each number of digits behind it.
Dfa multiples_of(const std::string& divisor) {
  const Decimal parsed = parse_decimal(divisor);
  constexpr std::size_t kMaxDigits = 9;
  constexpr std::uint64_t kMaxRemainders = 20'000;
  const std::size_t scale = parsed.fraction.size();
  const std::string digits = parsed.whole + parsed.fraction;
  if (parsed.is_negative || digits.find_first_not_of('0') == std::string::npos)
    fail("it must be positive");
  if (digits.size() > kMaxDigits + 1) fail("it has more than ", kMaxDigits, " digits");
  const std::uint64_t modulus = std::strtoull(digits.c_str(), nullptr, 10);
  if (modulus * (scale + 2) > kMaxRemainders) fail("it has too many digits");
  // Level 0: before the point; 1: at it; 1 + j: after j digits behind it.
  std::vector<Dfa::State> states(modulus * (scale == 0 ? 1 : scale + 2));
  const auto add = [&](std::uint64_t from, char c, std::uint64_t level, std::uint64_t remainder) {
    const auto byte = static_cast<std::uint8_t>(c);
    states[from].edges.push_back(
        {.bytes = {byte, byte}, .target = static_cast<StateId>(level * modulus + remainder)});
  };
  for (std::uint64_t state = 0; state < states.size(); ++state) {
    const std::uint64_t level = state / modulus;
    const std::uint64_t remainder = state % modulus;
    std::uint64_t scaled = remainder;
    for (std::uint64_t i = level == 0 ? 0 : level - 1; i < scale; ++i)
      scaled = scaled * 10 % modulus;
    states[state].is_end = scaled == 0;
    if (level == 0 && scale > 0) add(state, '.', 1, remainder);
    if (level == scale + 1) continue;
    for (char c = '0'; c <= '9'; ++c) {
      add(state, c, level == 0 ? 0 : level + 1,
          (remainder * 10 + static_cast<std::uint64_t>(c - '0')) % modulus);
    }
  }
  const Dfa sizes = intersection(magnitudes(), Dfa(std::move(states)));
  return union_of(sizes, negated(sizes));
}

}  // namespace graft::grammar::json
