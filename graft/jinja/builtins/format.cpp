// printf-style formatting ("%5.2f" % x) and Python's format specifications (">8.2f").

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "graft/jinja/builtins/builtin.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

constexpr std::size_t kMaxPrecision = 1000;

// [[fill]align][sign][#][0][width][,][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;
  char sign = '-';
  bool alternate = false;
  char grouping = 0;
  std::size_t width = 0;
  bool has_precision = false;
  std::size_t precision = 0;
  char type = 0;
};

bool is_any_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

std::size_t read_number(std::string_view text, std::size_t& at) {
  std::size_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (value > INT32_MAX) raise("Too many decimal digits in format string");
  }
  return value;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  const auto peek = [&](std::size_t i) { return i < text.size() ? text[i] : '\0'; };
  const std::size_t fill_size = text.empty() ? 0 : decode_utf8(text, 0).size;
  if (fill_size > 0 && is_any_of(peek(fill_size), "<>=^") && peek(fill_size) != 0) {
    spec.fill = text.substr(0, fill_size);
    spec.align = text[fill_size];
    at = fill_size + 1;
  } else if (peek(0) != 0 && is_any_of(peek(0), "<>=^")) {
    spec.align = text[at++];
  }
  if (peek(at) != 0 && is_any_of(peek(at), "+- ")) spec.sign = text[at++];
  if (peek(at) == '#') spec.alternate = true, ++at;
  if (peek(at) == '0') {
    if (spec.align == 0) spec.fill = "0", spec.align = '=';
    ++at;
  }
  spec.width = read_number(text, at);
  if (peek(at) == ',' || peek(at) == '_') spec.grouping = text[at++];
  if (peek(at) == '.') {
    const std::size_t before = ++at;
    spec.precision = read_number(text, at);
    spec.has_precision = true;
    if (at == before) raise("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) raise("Invalid format specifier");
  return spec;
}

std::string pad(Runtime& runtime,
                const Spec& spec,
                std::string_view sign,
                const std::string& body) {
  const std::size_t size = num_code_points(body) + sign.size();
  if (spec.width <= size) return std::string(sign) + body;
  const std::size_t missing = spec.width - size;
  runtime.heap.check_memory(missing * spec.fill.size());
  const auto fill = [&](std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i)
      out += spec.fill;
    return out;
  };
  switch (spec.align) {
    case '<':
      return std::string(sign) + body + fill(missing);
    case '^':
      return fill(missing / 2) + std::string(sign) + body + fill(missing - missing / 2);
    case '=':
      return std::string(sign) + fill(missing) + body;
    default:
      return fill(missing) + std::string(sign) + body;
  }
}

std::string sign_text(const Spec& spec, bool negative) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

// 1234567.5 to 1,234,567.5: groups the leading digits.
void group_digits(std::string& digits, char separator, std::size_t group) {
  std::size_t end = 0;
  while (end < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[end])) != 0)
    ++end;
  for (std::size_t i = end; i > group;) {
    i -= group;
    digits.insert(i, 1, separator);
  }
}

std::string float_body(double value, char type, std::size_t precision, bool alternate) {
  if (std::isnan(value)) return is_any_of(type, "FGE") ? "NAN" : "nan";
  if (std::isinf(value)) return is_any_of(type, "FGE") ? "INF" : "inf";
  if (precision > kMaxPrecision) raise("precision ", precision, " is too large");
  const std::string format = str("%", alternate ? "#" : "", ".*", type);
  char buffer[2048];  // 309 digits before the point, kMaxPrecision after it
  const int size =
      std::snprintf(buffer, sizeof buffer, format.c_str(), static_cast<int>(precision), value);
  return {buffer, static_cast<std::size_t>(size)};
}

std::string format_float(Runtime& runtime, double value, Spec spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  std::string body;
  if (spec.type == 0 && !spec.has_precision) {
    body = float_text(magnitude);
  } else if (spec.type == '%') {
    body = float_body(magnitude * 100, 'f', spec.has_precision ? spec.precision : 6, false) + "%";
  } else {
    char type = spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
    if (!is_any_of(type, "eEfFgG"))
      raise("Unknown format code '", spec.type, "' for object of type 'float'");
    body = float_body(magnitude, type, spec.has_precision ? spec.precision : 6, spec.alternate);
    // Without a type the text always has a point or an exponent.
    if (spec.type == 0 && body.find_first_of(".en") == std::string::npos) body += ".0";
  }
  if (spec.grouping != 0) group_digits(body, spec.grouping, 3);
  if (spec.align == 0) spec.align = '>';
  return pad(runtime, spec, sign_text(spec, negative), body);
}

std::string format_integer(Runtime& runtime, std::int64_t value, Spec spec) {
  if (spec.type != 0 && is_any_of(spec.type, "eEfFgG%"))
    return format_float(runtime, static_cast<double>(value), spec);
  if (spec.has_precision) raise("Precision not allowed in integer format specifier");
  const auto magnitude =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string body;
  std::string sign = sign_text(spec, value < 0);
  std::size_t group = 4;
  switch (spec.type) {
    case 0:
    case 'n':
    case 'd':
      body = fmt::format("{}", magnitude), group = 3;
      break;
    case 'x':
      body = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      body = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      body = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      body = fmt::format("{:b}", magnitude);
      break;
    case 'c':
      append_utf8(body, static_cast<char32_t>(std::min<std::uint64_t>(magnitude, 0x10ffff)));
      break;
    default:
      raise("Unknown format code '", spec.type, "' for object of type 'int'");
  }
  if (spec.grouping != 0) group_digits(body, spec.grouping, group);
  if (spec.alternate && spec.type != 0 && is_any_of(spec.type, "xXob")) sign += str('0', spec.type);
  if (spec.align == 0) spec.align = '>';
  return pad(runtime, spec, sign, body);
}

std::string format_text(Runtime& runtime, std::string_view text, Spec spec) {
  if (spec.type != 0 && spec.type != 's')
    raise("Unknown format code '", spec.type, "' for object of type 'str'");
  if (spec.align == '=') raise("'=' alignment not allowed in string format specifier");
  if (spec.align == 0) spec.align = '<';
  if (spec.has_precision) text = text.substr(0, byte_offset(text, spec.precision));
  return pad(runtime, spec, "", std::string(text));
}

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime), format_(format.bytes), is_markup_(format.is_markup), values_(values) {}

  Value run() {
    std::string out;
    while (at_ < format_.size()) {
      const std::size_t percent = std::min(format_.find('%', at_), format_.size());
      out += format_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ < format_.size()) out += conversion();
      runtime_.heap.check_memory(out.size());
    }
    // Python accepts unused values that could be a mapping.
    const bool all_used = values_.is(Kind::Tuple)
                              ? used_ == values_.items().size()
                              : used_ > 0 || values_.is(Kind::Dict) || values_.is(Kind::List) ||
                                    values_.is(Kind::Range) || values_.is_undefined();
    if (!all_used) raise("not all arguments converted during string formatting");
    return runtime_.heap.text(std::move(out), is_markup_);
  }

 private:
  char next() {
    if (at_ >= format_.size()) raise("incomplete format");
    return format_[at_++];
  }

  const Value& argument() {
    if (values_.is(Kind::Tuple)) {
      if (used_ == values_.items().size()) raise("not enough arguments for format string");
      return values_.items()[used_++];
    }
    if (used_++ > 0) raise("not enough arguments for format string");
    return values_;
  }

  Value named_argument() {
    const std::size_t close = format_.find(')', at_);
    if (close == std::string_view::npos) raise("incomplete format key");
    if (!values_.is(Kind::Dict)) raise("format requires a mapping");
    const std::string_view key = format_.substr(at_, close - at_);
    const Value* found = values_.dict().find(key);
    if (found == nullptr) raise("KeyError: ", in_quotes(key));
    at_ = close + 1;
    return *found;
  }

  std::size_t size_argument() {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      const Value& value = argument();
      if (!value.is_integer()) raise("* wants int");
      return static_cast<std::size_t>(std::clamp<std::int64_t>(value.integer(), 0, INT32_MAX));
    }
    return read_number(format_, at_);
  }

  std::string conversion() {
    ++at_;  // the percent sign
    Spec spec;
    Value value = Value::missing();
    if (at_ < format_.size() && format_[at_] == '(') {
      ++at_;
      value = named_argument();
    }
    bool zero = false;
    for (; at_ < format_.size() && is_any_of(format_[at_], "-+ #0"); ++at_) {
      const char flag = format_[at_];
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') zero = true;
    }
    spec.width = size_argument();
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.has_precision = true;
      spec.precision = size_argument();
    }
    while (at_ < format_.size() && is_any_of(format_[at_], "hlL"))
      ++at_;
    spec.type = next();
    if (spec.type == '%') return "%";
    if (value.is(Kind::Missing)) value = argument();
    if (zero && spec.align == 0 && !is_any_of(spec.type, "srac")) spec.fill = "0", spec.align = '=';
    if (spec.align == 0) spec.align = '>';
    return convert(value, spec);
  }

  std::string convert(const Value& value, Spec spec) {
    if (is_any_of(spec.type, "sra")) {
      std::string text = spec.type == 's' ? to_str(runtime_, value) : to_repr(runtime_, value);
      if (is_markup_ && !(value.is_text() && value.text().is_markup)) text = escape_html(text);
      spec.type = 's';
      return format_text(runtime_, text, spec);
    }
    if (spec.type == 'c') {
      spec.type = value.is_text() ? 's' : 'c';
      if (value.is_text() && value.text().length != 1) raise("%c requires int or char");
      return format_value_as(value, spec);
    }
    if (is_any_of(spec.type, "diuoxX")) return integer(value, spec);
    if (!is_any_of(spec.type, "eEfFgG")) raise("unsupported format character '", spec.type, "'");
    if (value.is_undefined()) raise(value.undefined_message());
    if (!value.is_number()) raise("must be real number, not ", type_name(value));
    return format_float(runtime_, value.real(), spec);
  }

  std::string integer(const Value& value, Spec spec) {
    if (value.is_undefined()) raise(value.undefined_message());
    const bool decimal = is_any_of(spec.type, "diu");
    if (!value.is_integer() && !(decimal && value.is(Kind::Float)))
      raise("%", spec.type, " format: a real number is required, not ", type_name(value));
    if (decimal) spec.type = 'd';
    if (!value.is_integer() && !(std::fabs(value.real()) < 9.2e18))
      raise("cannot convert ", float_text(value.real()), " to a 64-bit integer");
    const std::int64_t number =
        value.is_integer() ? value.integer() : static_cast<std::int64_t>(value.real());
    if (!spec.has_precision) return format_integer(runtime_, number, spec);
    // The precision of an integer is its minimum number of digits.
    Spec digits;
    digits.type = spec.type;
    digits.fill = "0";
    digits.align = '=';
    digits.width = spec.precision + (number < 0 ? 1 : 0);
    std::string body = format_integer(runtime_, number, digits);
    const bool negative = number < 0;
    if (negative) body.erase(0, 1);
    return pad(runtime_, spec, sign_text(spec, negative), body);
  }

  std::string format_value_as(const Value& value, const Spec& spec) {
    if (value.is_text()) return format_text(runtime_, value.str(), spec);
    if (!value.is_integer()) raise("%c requires int or char");
    return format_integer(runtime_, value.integer(), spec);
  }

  Runtime& runtime_;
  std::string_view format_;
  bool is_markup_;
  const Value& values_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& values) {
  return PercentFormatter(runtime, format.text(), values).run();
}

std::string format_value(Runtime& runtime, const Value& value, std::string_view spec) {
  if (spec.empty()) return to_str(runtime, value);
  const Spec parsed = parse_spec(spec);
  switch (value.kind()) {
    case Kind::Text:
      return format_text(runtime, value.str(), parsed);
    case Kind::Bool:
    case Kind::Int:
      return format_integer(runtime, value.integer(), parsed);
    case Kind::Float:
      return format_float(runtime, value.real(), parsed);
    default:
      raise("unsupported format string passed to ", type_name(value), ".__format__");
  }
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace graft::jinja
