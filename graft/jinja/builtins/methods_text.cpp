// Methods of str that transform or classify text.

#include <algorithm>
#include <array>

#include "graft/jinja/builtins/builtin.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

Value result(Runtime& runtime, std::string_view text) {
  return runtime.heap.text(std::string(text));
}

template <std::string (*kMap)(std::string_view)>
Value mapped(Runtime& runtime, Args& args) {
  return runtime.heap.text(kMap(args.self.str()));
}

template <Side kSide>
Value strip(Runtime& runtime, Args& args) {
  const std::string_view text = args.self.str();
  if (!args.has(0)) return result(runtime, strip_space(text, kSide));
  runtime.heap.step(text.size() / 64 * args.text(0).size());
  return result(runtime, strip_any(text, args.text(0), kSide));
}

// Pads text to `width` code points; `side` is where the fill is added.
Value pad(Runtime& runtime, Args& args, Side side) {
  const std::int64_t width = args.integer(0, 0);
  const std::string_view fill = args.given(1) ? args.text(1) : " ";
  if (num_code_points(fill) != 1) raise("The fill character must be exactly one character long");
  const auto size = static_cast<std::int64_t>(args.self.text().length);
  if (width <= size) return args.self;
  const std::int64_t missing = width - size;
  // As CPython's center(): the odd fill character is on the left when the width is odd.
  std::int64_t left = side == Side::Left ? missing : 0;
  if (side == Side::Both) left = missing / 2 + (missing & width & 1);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(missing), fill.size(), &bytes))
    bytes = SIZE_MAX;
  runtime.heap.check_memory(bytes);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i)
    out += fill;
  out += args.self.str();
  for (std::int64_t i = left; i < missing; ++i)
    out += fill;
  return runtime.heap.text(std::move(out));
}

Value str_center(Runtime& runtime, Args& args) {
  return pad(runtime, args, Side::Both);
}
Value ljust(Runtime& runtime, Args& args) {
  return pad(runtime, args, Side::Right);
}
Value rjust(Runtime& runtime, Args& args) {
  return pad(runtime, args, Side::Left);
}

Value zfill(Runtime& runtime, Args& args) {
  const std::int64_t width = args.integer(0, 0);
  const auto size = static_cast<std::int64_t>(args.self.text().length);
  if (width <= size) return args.self;
  runtime.heap.check_memory(static_cast<std::size_t>(width - size));
  std::string out(args.self.str());
  const bool has_sign = out.starts_with('+') || out.starts_with('-');
  out.insert(has_sign ? 1 : 0, static_cast<std::size_t>(width - size), '0');
  return runtime.heap.text(std::move(out));
}

Value expandtabs(Runtime& runtime, Args& args) {
  const std::int64_t size = std::clamp<std::int64_t>(args.integer(0, 8), 0, 1 << 20);
  std::string out;
  std::int64_t column = 0;
  for (const char c : args.self.str()) {
    if (c == '\t') {
      const std::int64_t spaces = size == 0 ? 0 : size - column % size;
      out.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
      runtime.heap.check_memory(out.size());
      continue;
    }
    out += c;
    if (c == '\n' || c == '\r') {
      column = 0;
    } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) {
      ++column;
    }
  }
  return runtime.heap.text(std::move(out));
}

Value removeprefix(Runtime& runtime, Args& args) {
  std::string_view text = args.self.str();
  const std::string_view part = args.text(0);
  if (text.starts_with(part)) text.remove_prefix(part.size());
  return result(runtime, text);
}

Value removesuffix(Runtime& runtime, Args& args) {
  std::string_view text = args.self.str();
  const std::string_view part = args.text(0);
  if (text.ends_with(part)) text.remove_suffix(part.size());
  return result(runtime, text);
}

// Replacing "" inserts `with` around every code point.
std::string replace_empty(Runtime& runtime,
                          std::string_view text,
                          std::string_view with,
                          std::int64_t count) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    if (count-- != 0) {
      out += with;
    } else {
      return out.append(text.substr(at));
    }
    if (at == text.size()) break;
    const std::size_t size = decode_utf8(text, at).size;
    out += text.substr(at, size);
    at += size;
    runtime.heap.check_memory(out.size());
  }
  return out;
}

Value str_replace(Runtime& runtime, Args& args) {
  const std::string_view text = args.self.str();
  const std::string_view part = args.text(0);
  const std::string_view with = args.text(1);
  std::int64_t count = args.integer(2, -1);
  if (part.empty()) return runtime.heap.text(replace_empty(runtime, text, with, count));
  std::string out;
  std::size_t at = 0;
  runtime.heap.step(text.size() / 4096 * part.size());
  while (count-- != 0) {
    const std::size_t found = text.find(part, at);
    if (found == std::string_view::npos) break;
    out.append(text.substr(at, found - at)).append(with);
    at = found + part.size();
    runtime.heap.check_memory(out.size());
  }
  return runtime.heap.text(out.append(text.substr(at)));
}

Value str_join(Runtime& runtime, Args& args) {
  std::string out;
  bool first = true;
  const Text& separator = args.self.text();
  const Iterator::Next next = iterate(runtime, args[0]);
  for (Value item; next(item); first = false) {
    if (!item.is_text() && !separator.is_markup)
      raise("sequence item: expected str instance, ", type_name(item), " found");
    if (!first) out += separator.bytes;
    const bool is_safe = !separator.is_markup || (item.is_text() && item.text().is_markup);
    out += is_safe ? std::string(item.str()) : escape_html(to_str(runtime, item));
    runtime.heap.step();
    runtime.heap.check_memory(out.size());
  }
  return runtime.heap.text(std::move(out));
}

Value str_format(Runtime& runtime, Args& args) {
  return format_braces(runtime, args.self, args.raw);
}

Value format_map(Runtime& runtime, Args& args) {
  CallArgs named;
  if (!args[0].is(Kind::Dict)) raise("format_map() requires a mapping");
  for (const auto& [key, value] : args[0].dict().entries) {
    if (key.is_text()) named.named.emplace_back(std::string(key.str()), value);
  }
  return format_braces(runtime, args.self, named);
}

using IsClass = bool (*)(char32_t);

// Whether the text is not empty and all code points are of the class.
template <IsClass kClass>
Value all_are(Runtime& /*runtime*/, Args& args) {
  const std::string_view text = args.self.str();
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (!kClass(c.value)) return Value(false);
    at += c.size;
  }
  return Value(!text.empty());
}

bool is_ascii(char32_t c) {
  return c < 0x80;
}

Value isascii(Runtime& runtime, Args& args) {
  return args.self.str().empty() ? Value(true) : all_are<is_ascii>(runtime, args);
}

Value isprintable(Runtime& runtime, Args& args) {
  return args.self.str().empty() ? Value(true) : all_are<is_printable>(runtime, args);
}

bool is_identifier(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const bool fits = c.value == '_' || is_alpha(c.value) || (at > 0 && is_decimal(c.value));
    if (!fits) return false;
    at += c.size;
  }
  return !text.empty();
}

Value isidentifier(Runtime& /*runtime*/, Args& args) {
  return Value(is_identifier(args.self.str()));
}

// Whether the text has a letter of this case and none of the other.
template <IsClass kThis, IsClass kOther>
Value is_cased_as(Runtime& /*runtime*/, Args& args) {
  const std::string_view text = args.self.str();
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (kOther(c.value) || is_title(c.value)) return Value(false);
    any = any || kThis(c.value);
    at += c.size;
  }
  return Value(any);
}

Value istitle(Runtime& /*runtime*/, Args& args) {
  const std::string_view text = args.self.str();
  bool any = false;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const bool is_start = is_upper(c.value) || is_title(c.value);
    if (is_start && in_word) return Value(false);
    if (is_lower(c.value) && !in_word) return Value(false);
    in_word = is_start || is_lower(c.value);
    any = any || in_word;
    at += c.size;
  }
  return Value(any);
}

// clang-format off
constexpr std::array kTextMethods = {
    Builtin{"upper", "/", 0, mapped<upper>},
    Builtin{"lower", "/", 0, mapped<lower>},
    Builtin{"casefold", "/", 0, mapped<lower>},
    Builtin{"title", "/", 0, mapped<title>},
    Builtin{"capitalize", "/", 0, mapped<capitalize>},
    Builtin{"swapcase", "/", 0, mapped<swap_case>},
    Builtin{"strip", "/chars", 0, strip<Side::Both>},
    Builtin{"lstrip", "/chars", 0, strip<Side::Left>},
    Builtin{"rstrip", "/chars", 0, strip<Side::Right>},
    Builtin{"center", "/width fillchar", 1, str_center},
    Builtin{"ljust", "/width fillchar", 1, ljust},
    Builtin{"rjust", "/width fillchar", 1, rjust},
    Builtin{"zfill", "/width", 1, zfill},
    Builtin{"expandtabs", "tabsize", 0, expandtabs},
    Builtin{"removeprefix", "/prefix", 1, removeprefix},
    Builtin{"removesuffix", "/suffix", 1, removesuffix},
    Builtin{"replace", "/old new count", 2, str_replace},
    Builtin{"join", "/iterable", 1, str_join},
    Builtin{"format", "*", 0, str_format},
    Builtin{"format_map", "/mapping", 1, format_map},
    Builtin{"isalpha", "/", 0, all_are<is_alpha>},
    Builtin{"isalnum", "/", 0, all_are<is_alnum>},
    Builtin{"isdecimal", "/", 0, all_are<is_decimal>},
    Builtin{"isdigit", "/", 0, all_are<is_digit>},
    Builtin{"isnumeric", "/", 0, all_are<is_numeric>},
    Builtin{"isspace", "/", 0, all_are<is_space>},
    Builtin{"isascii", "/", 0, isascii},
    Builtin{"isprintable", "/", 0, isprintable},
    Builtin{"isidentifier", "/", 0, isidentifier},
    Builtin{"isupper", "/", 0, is_cased_as<is_upper, is_lower>},
    Builtin{"islower", "/", 0, is_cased_as<is_lower, is_upper>},
    Builtin{"istitle", "/", 0, istitle},
};
// clang-format on

}  // namespace

std::span<const Builtin> text_methods() {
  return kTextMethods;
}

}  // namespace graft::jinja
