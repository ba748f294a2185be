// Filters that return numbers, and Python's parsing of numbers.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "graft/jinja/builtins/builtin.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// The base of a prefix such as 0x; 0 without one.
int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1]) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 0;
  }
}

// Parses digits into the negated value, because INT64_MIN has no positive counterpart.
std::optional<std::int64_t> negative_digits(std::string_view text,
                                            std::int64_t base,
                                            bool may_underscore) {
  std::int64_t value = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_' && (after_digit || may_underscore)) {
      after_digit = may_underscore = false;
      continue;
    }
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, base, &value) || __builtin_sub_overflow(value, digit, &value))
      raise("an integer does not fit into 64 bits");
    after_digit = true;
    may_underscore = false;
  }
  return after_digit ? std::optional(value) : std::nullopt;
}

// Removes a leading sign; true for a minus.
bool cut_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

// Python's int(text, base): surrounding spaces, a sign, single underscores between digits.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = strip_space(text);
  const bool negative = cut_sign(text);
  const int prefix = prefix_base(text);
  const bool has_prefix = prefix != 0 && (base == 0 || base == prefix);
  if (has_prefix) {
    text.remove_prefix(2);
    base = prefix;
  } else if (base == 0) {
    base = 10;
    const bool zeros = std::ranges::all_of(text, [](char c) { return c == '0' || c == '_'; });
    if (text.starts_with('0') && !zeros) return std::nullopt;
  }
  const auto value = negative_digits(text, base, has_prefix);
  if (!value || negative) return value;
  if (*value == INT64_MIN) raise("an integer does not fit into 64 bits");
  return -*value;
}

// Reads digits with single underscores between them and appends the digits to `out`.
bool read_digits(std::string_view text, std::size_t& at, std::string& out) {
  const std::size_t begin = at;
  while (at < text.size()) {
    const bool is_digit = text[at] >= '0' && text[at] <= '9';
    const bool joins = text[at] == '_' && at > begin && at + 1 < text.size() &&
                       text[at - 1] != '_' && text[at + 1] >= '0' && text[at + 1] <= '9';
    if (!is_digit && !joins) break;
    if (is_digit) out += text[at];
    ++at;
  }
  return at > begin;
}

std::optional<double> parse_named(std::string_view text, bool negative) {
  const std::string name = lower(text);
  if (name == "inf" || name == "infinity") {
    const double inf = std::numeric_limits<double>::infinity();
    return negative ? -inf : inf;
  }
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// Python's float(text).
std::optional<double> parse_float(std::string_view text) {
  text = strip_space(text);
  const bool negative = cut_sign(text);
  if (const auto named = parse_named(text, negative)) return named;
  std::string clean = negative ? "-" : "";
  std::size_t at = 0;
  bool any = read_digits(text, at, clean);
  if (at < text.size() && text[at] == '.') {
    clean += '.';
    any = read_digits(text, ++at, clean) || any;
  }
  if (any && at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    clean += 'e';
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) clean += text[at++];
    if (!read_digits(text, at, clean)) return std::nullopt;
  }
  if (!any || at != text.size()) return std::nullopt;
  // strtod, not from_chars: it returns infinity or zero for values out of range, as Python does.
  return std::strtod(clean.c_str(), nullptr);
}

std::int64_t truncated(double value) {
  if (std::isinf(value)) raise("cannot convert float infinity to integer");
  if (!(std::fabs(value) < 9.2e18)) raise("an integer does not fit into 64 bits");
  return static_cast<std::int64_t>(value);
}

Value to_int(Runtime& /*runtime*/, Args& args) {
  const Value& value = args.self;
  Value fallback = args.given(0) ? args[0] : Value(std::int64_t{0});
  if (value.is_undefined()) raise(value.undefined_message());
  if (value.is_integer()) return Value(value.integer());
  std::optional<double> real;
  if (value.is(Kind::Float)) real = value.real();
  if (value.is_text()) {
    if (const auto integer = parse_integer(value.str(), args.integer(1, 10)))
      return Value(*integer);
    real = parse_float(value.str());
  }
  if (!real.has_value() || std::isnan(*real)) return fallback;
  return Value(truncated(*real));
}

Value to_float(Runtime& /*runtime*/, Args& args) {
  const Value& value = args.self;
  if (value.is_undefined()) raise(value.undefined_message());
  if (value.is_number()) return Value(value.real());
  const auto real = value.is_text() ? parse_float(value.str()) : std::nullopt;
  if (real.has_value()) return Value(*real);
  return args.given(0) ? args[0] : Value(0.0);
}

Value absolute(Runtime& /*runtime*/, Args& args) {
  const Value& value = args.self;
  if (value.is(Kind::Float)) return Value(std::fabs(value.real()));
  if (!value.is_integer()) raise("bad operand type for abs(): '", type_name(value), "'");
  return value.integer() < 0 ? negate(value) : Value(value.integer());
}

// Python's round(value, places): to nearest, ties to even.
double round_float(double value, std::int64_t places) {
  if (!std::isfinite(value) || places > 323) return value;
  if (places >= 0) {
    return std::strtod(fmt::format("{:.{}f}", value, places).c_str(), nullptr);
  }
  if (places < -308) return std::copysign(0.0, value);
  const double scale = std::pow(10.0, static_cast<double>(-places));
  return std::nearbyint(value / scale) * scale;
}

std::int64_t round_integer(std::int64_t value, std::int64_t places) {
  if (places >= 0) return value;
  if (places < -18) return 0;
  std::int64_t scale = 1;
  for (std::int64_t i = places; i < 0; ++i)
    scale *= 10;
  const std::int64_t rest = ((value % scale) + scale) % scale;
  std::int64_t low = 0;
  std::int64_t result = 0;
  if (__builtin_sub_overflow(value, rest, &low)) raise("an integer does not fit into 64 bits");
  const bool up = rest > scale - rest || (rest == scale - rest && (low / scale) % 2 != 0);
  if (__builtin_add_overflow(low, up ? scale : 0, &result))
    raise("an integer does not fit into 64 bits");
  return result;
}

Value round_filter(Runtime& runtime, Args& args) {
  const Value& value = args.self;
  const std::string_view method = args.given(1) ? args.text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    raise("method must be common, ceil or floor");
  const std::int64_t places = args.integer(0, 0);
  if (method == "common") {
    if (value.is_integer()) return Value(round_integer(value.integer(), places));
    if (!value.is(Kind::Float))
      raise("type ", type_name(value), " doesn't define __round__ method");
    return Value(round_float(value.real(), places));
  }
  const Value scale = apply(runtime, BinaryOp::Pow, Value(std::int64_t{10}), Value(places));
  const Value scaled = apply(runtime, BinaryOp::Mul, value, scale);
  if (!scaled.is_number()) raise("must be real number, not ", type_name(scaled));
  if (scaled.is_integer()) return apply(runtime, BinaryOp::Div, scaled, scale);
  if (std::isnan(scaled.real())) raise("cannot convert float NaN to integer");
  const double rounded = method == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real());
  return apply(runtime, BinaryOp::Div, Value(truncated(rounded)), scale);
}

// clang-format off
constexpr std::array kNumberFilters = {
    Builtin{"int", "default base", 0, to_int},
    Builtin{"float", "default", 0, to_float},
    Builtin{"abs", "", 0, absolute},
    Builtin{"round", "precision method", 0, round_filter},
};
// clang-format on

}  // namespace

std::span<const Builtin> number_filters() {
  return kNumberFilters;
}

}  // namespace graft::jinja
