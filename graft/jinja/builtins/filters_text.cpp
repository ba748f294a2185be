// Filters that return text.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graft/jinja/builtins/builtin.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

// Calls a method of str on the text of a value of any type.
Value call_method(Runtime& runtime, std::string_view method, const Value& self, CallArgs args) {
  const Value text = to_text(runtime, self);
  return call_builtin(runtime, *find_method(text, method), text, args);
}

Value upper_filter(Runtime& runtime, Args& args) {
  return call_method(runtime, "upper", args.self, {});
}
Value lower_filter(Runtime& runtime, Args& args) {
  return call_method(runtime, "lower", args.self, {});
}
Value capitalize_filter(Runtime& runtime, Args& args) {
  return call_method(runtime, "capitalize", args.self, {});
}
Value trim(Runtime& runtime, Args& args) {
  CallArgs chars;
  if (args.given(0)) chars.positional.push_back(args[0]);
  return call_method(runtime, "strip", args.self, std::move(chars));
}
Value center(Runtime& runtime, Args& args) {
  return call_method(runtime, "center", args.self, {{Value(args.integer(0, 80))}, {}});
}

Value replace(Runtime& runtime, Args& args) {
  const auto text = [&](const Value& value) { return runtime.heap.text(to_str(runtime, value)); };
  CallArgs call{{text(args[0]), text(args[1])}, {}};
  if (args.has(2)) call.positional.push_back(args[2]);
  return call_method(runtime, "replace", text(args.self), std::move(call));
}

// Words begin after whitespace, hyphens and opening brackets.
Value title_filter(Runtime& runtime, Args& args) {
  const std::string text = to_str(runtime, args.self);
  const auto separates = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool is_separator = separates(decode_utf8(text, at).value);
    const std::size_t begin = at;
    while (at < text.size() && separates(decode_utf8(text, at).value) == is_separator)
      at += decode_utf8(text, at).size;
    const std::string_view run = std::string_view(text).substr(begin, at - begin);
    const std::size_t first = decode_utf8(run, 0).size;
    out += upper(run.substr(0, first)) + lower(run.substr(first));
  }
  return runtime.heap.text(std::move(out));
}

Value wordcount(Runtime& runtime, Args& args) {
  const std::string text = to_str(runtime, args.self);
  std::int64_t number = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const bool is_word = c.value == '_' || is_alnum(c.value);
    number += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    at += c.size;
  }
  return Value(number);
}

std::string indentation(Runtime& runtime, const Args& args) {
  if (args.given(0) && args[0].is_text()) return std::string(args[0].str());
  const std::int64_t width = std::max<std::int64_t>(0, args.integer(0, 4));
  runtime.heap.check_memory(static_cast<std::size_t>(width));
  std::string spaces(static_cast<std::size_t>(width), ' ');
  return spaces;
}

Value indent(Runtime& runtime, Args& args) {
  if (args.self.is_undefined()) raise(args.self.undefined_message());
  if (!args.self.is_text()) raise("indent requires a string, not '", type_name(args.self), "'");
  const std::string space = indentation(runtime, args);
  const bool indent_blank = args.flag(2, false);
  const Value text = runtime.heap.text(std::string(args.self.str()) + "\n");
  CallArgs none;
  const Value lines = call_builtin(runtime, *find_method(text, "splitlines"), text, none);
  std::string out;
  for (std::size_t i = 0; i < lines.items().size(); ++i) {
    const std::string_view line = lines.items()[i].str();
    if (i > 0) out += '\n';
    const bool is_indented = i == 0 ? args.flag(1, false) : indent_blank || !line.empty();
    if (is_indented) out += space;
    out += line;
    runtime.heap.check_memory(out.size());
  }
  return runtime.heap.text(std::move(out), args.self.text().is_markup);
}

Value truncate(Runtime& runtime, Args& args) {
  const std::int64_t limit = args.integer(0, 255);
  const std::string end = args.given(2) ? std::string(args.text(2)) : "...";
  const std::int64_t leeway = args.has(3) ? args.integer(3, 5) : 5;
  const auto end_size = static_cast<std::int64_t>(num_code_points(end));
  if (limit < end_size) raise("expected length >= ", end_size, ", got ", limit);
  if (leeway < 0) raise("expected leeway >= 0, got ", leeway);
  std::size_t size = 0;
  if (!length(args.self, size))
    raise("truncate requires a string, not '", type_name(args.self), "'");
  if (static_cast<std::int64_t>(size) - leeway <= limit) return args.self;
  if (!args.self.is_text()) raise("truncate requires a string, not '", type_name(args.self), "'");
  std::string_view text = args.self.str();
  text = text.substr(0, byte_offset(text, static_cast<std::size_t>(limit - end_size)));
  if (!args.flag(1, false)) text = text.substr(0, std::min(text.rfind(' '), text.size()));
  return runtime.heap.text(std::string(text) + end);
}

Value escape(Runtime& runtime, Args& args) {
  if (args.self.is_text() && args.self.text().is_markup) return args.self;
  return runtime.heap.text(escape_html(to_str(runtime, args.self)), true);
}

Value force_escape(Runtime& runtime, Args& args) {
  return runtime.heap.text(escape_html(to_str(runtime, args.self)), true);
}

Value safe(Runtime& runtime, Args& args) {
  return runtime.heap.text(to_str(runtime, args.self), true);
}

Value string(Runtime& runtime, Args& args) {
  return to_text(runtime, args.self);
}

Value format(Runtime& runtime, Args& args) {
  if (!args.raw.positional.empty() && !args.raw.named.empty())
    raise("can't handle positional and keyword arguments at the same time");
  const Value format = to_text(runtime, args.self);
  if (args.raw.named.empty())
    return format_percent(runtime, format, runtime.heap.tuple(args.raw.positional));
  return format_percent(runtime, format, runtime.heap.dict(dict_of(runtime, args.raw)));
}

std::string url_quoted(std::string_view text, bool in_query) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("_.-~").find(c) != std::string_view::npos;
    if (is_plain || (c == '/' && !in_query)) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value urlencode(Runtime& runtime, Args& args) {
  if (args.self.is_text() || !is_iterable(args.self))
    return runtime.heap.text(url_quoted(to_str(runtime, args.self), false));
  const Value pairs =
      args.self.is(Kind::Dict) ? runtime.heap.view(args.self, DictView::Of::Items) : args.self;
  std::string out;
  const Iterator::Next next = iterate(runtime, pairs);
  for (Value pair; next(pair);) {
    const std::vector<Value> parts = collect(runtime, pair);
    if (parts.size() != 2) raise("urlencode requires pairs, got ", parts.size(), " values");
    out += str(out.empty() ? "" : "&", url_quoted(to_str(runtime, parts[0]), true), "=",
               url_quoted(to_str(runtime, parts[1]), true));
    runtime.heap.check_memory(out.size());
  }
  return runtime.heap.text(std::move(out));
}

void read_separators(Runtime& runtime, const Value& value, JsonStyle& style) {
  const std::vector<Value> parts = collect(runtime, value);
  if (parts.size() != 2 || !parts[0].is_text() || !parts[1].is_text())
    raise("tojson: separators must be two strings");
  style.item_separator = parts[0].str();
  style.key_separator = parts[1].str();
}

Value tojson(Runtime& runtime, Args& args) {
  JsonStyle style;
  style.ensure_ascii = args.flag(0, false);
  style.sort_keys = args.flag(3, false);
  if (args.has(1)) {
    style.is_indented = true;
    style.item_separator = ",";
    if (args[1].is_text()) {
      style.indent = args[1].str();
    } else {
      const std::int64_t width = std::max<std::int64_t>(0, args.integer(1, 0));
      runtime.heap.check_memory(static_cast<std::size_t>(width));
      style.indent = std::string(static_cast<std::size_t>(width), ' ');
    }
  }
  if (args.has(2)) read_separators(runtime, args[2], style);
  return runtime.heap.text(to_json(runtime, args.self, style));
}

// clang-format off
constexpr std::array kTextFilters = {
    Builtin{"tojson", "ensure_ascii indent separators sort_keys", 0, tojson},
    Builtin{"trim", "chars", 0, trim},
    Builtin{"replace", "old new count", 2, replace},
    Builtin{"upper", "", 0, upper_filter},
    Builtin{"lower", "", 0, lower_filter},
    Builtin{"title", "", 0, title_filter},
    Builtin{"capitalize", "", 0, capitalize_filter},
    Builtin{"center", "width", 0, center},
    Builtin{"string", "", 0, string},
    Builtin{"indent", "width first blank", 0, indent},
    Builtin{"truncate", "length killwords end leeway", 0, truncate},
    Builtin{"wordcount", "", 0, wordcount},
    Builtin{"escape", "", 0, escape},
    Builtin{"e", "", 0, escape},
    Builtin{"forceescape", "", 0, force_escape},
    Builtin{"safe", "", 0, safe},
    Builtin{"format", "*", 0, format},
    Builtin{"urlencode", "", 0, urlencode},
};
// clang-format on

}  // namespace

std::span<const Builtin> text_filters() {
  return kTextFilters;
}

}  // namespace graft::jinja
