// Values as text: Python's str(), repr() and json.dumps().

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "graft/jinja/runtime.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

void append_repr(Runtime& runtime, std::string& out, const Value& value);

// Nested lists that share their items print exponentially more than they hold.
void check_growth(Runtime& runtime, const std::string& out) {
  runtime.heap.step();
  runtime.heap.check_memory(out.size());
}

void append_items(Runtime& runtime, std::string& out, const std::vector<Value>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(runtime, out, items[i]);
  }
}

void append_dict(Runtime& runtime, std::string& out, const Dict& dict) {
  out += '{';
  for (std::size_t i = 0; i < dict.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(runtime, out, dict.entries[i].first);
    out += ": ";
    append_repr(runtime, out, dict.entries[i].second);
  }
  out += '}';
}

void append_view(Runtime& runtime, std::string& out, const DictView& view) {
  static constexpr std::string_view kNames[] = {"dict_keys([", "dict_values([", "dict_items(["};
  out += kNames[static_cast<std::size_t>(view.of)];
  bool first = true;
  for (const auto& [key, value] : view.dict.dict().entries) {
    if (!first) out += ", ";
    first = false;
    if (view.of == DictView::Of::Items) out += '(';
    if (view.of != DictView::Of::Values) append_repr(runtime, out, key);
    if (view.of == DictView::Of::Items) out += ", ";
    if (view.of != DictView::Of::Keys) append_repr(runtime, out, value);
    if (view.of == DictView::Of::Items) out += ')';
  }
  out += "])";
}

void append_range(std::string& out, const NumberRange& range) {
  out += fmt::format("range({}, {}", range.start, range.stop);
  if (range.step != 1) out += fmt::format(", {}", range.step);
  out += ')';
}

void append_repr(Runtime& runtime, std::string& out, const Value& value) {
  check_growth(runtime, out);
  switch (value.kind()) {
    case Kind::Missing:
      out += "missing";
      break;
    case Kind::Undefined:
      out += "Undefined";
      break;
    case Kind::None:
      out += "None";
      break;
    case Kind::Bool:
      out += value.integer() != 0 ? "True" : "False";
      break;
    case Kind::Int:
      out += std::to_string(value.integer());
      break;
    case Kind::Float:
      out += float_text(value.real());
      break;
    case Kind::Text:
      out += value.text().is_markup ? "Markup(" + in_quotes(value.str()) + ")"
                                    : in_quotes(value.str());
      break;
    case Kind::List:
      out += '[';
      append_items(runtime, out, value.items());
      out += ']';
      break;
    case Kind::Tuple:
      out += '(';
      append_items(runtime, out, value.items());
      out += value.items().size() == 1 ? ",)" : ")";
      break;
    case Kind::Dict:
      append_dict(runtime, out, value.dict());
      break;
    case Kind::View:
      append_view(runtime, out, value.view());
      break;
    case Kind::Range:
      append_range(out, value.range());
      break;
    case Kind::Iterator:
      out += "<generator object>";
      break;
    case Kind::Native: {
      const DepthScope depth_scope(runtime);
      out += value.native().repr(runtime);
      break;
    }
  }
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  std::string write(const Value& value) {
    append(value, 0);
    return std::move(out_);
  }

 private:
  void append(const Value& value, int level) {
    check_growth(runtime_, out_);
    switch (value.kind()) {
      case Kind::None:
        out_ += "null";
        return;
      case Kind::Bool:
        out_ += value.integer() != 0 ? "true" : "false";
        return;
      case Kind::Int:
        out_ += std::to_string(value.integer());
        return;
      case Kind::Float:
        out_ += number(value.real());
        return;
      case Kind::Text:
        append_string(value.str());
        return;
      case Kind::List:
      case Kind::Tuple:
        append_list(value.items(), level);
        return;
      case Kind::Dict:
        append_dict(value.dict(), level);
        return;
      default:
        raise("Object of type ", type_name(value), " is not JSON serializable");
    }
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
  }

  void new_line(int level) {
    if (!style_.is_indented) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i)
      out_ += style_.indent;
    check_growth(runtime_, out_);
  }

  void append_list(const std::vector<Value>& items, int level) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      append(items[i], level + 1);
    }
    new_line(level);
    out_ += ']';
  }

  void append_dict(const Dict& dict, int level) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries)
      entries.push_back(&entry);
    if (style_.sort_keys) {
      std::ranges::stable_sort(entries, [this](const auto* a, const auto* b) {
        return less(runtime_.heap, a->first, b->first);
      });
    }
    out_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      append_string(key_text(entries[i]->first));
      out_ += style_.key_separator;
      append(entries[i]->second, level + 1);
    }
    new_line(level);
    out_ += '}';
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::Text:
        return std::string(key.str());
      case Kind::Int:
        return std::to_string(key.integer());
      case Kind::Float:
        return number(key.real());
      case Kind::Bool:
        return key.integer() != 0 ? "true" : "false";
      case Kind::None:
        return "null";
      default:
        raise("keys must be str, int, float, bool or None, not ", type_name(key));
    }
  }

  void append_string(std::string_view text) {
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      append_char(c.value, text.substr(at, c.size));
      at += c.size;
    }
    out_ += '"';
    check_growth(runtime_, out_);
  }

  void append_char(char32_t c, std::string_view bytes) {
    static constexpr std::string_view kPlain = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    const auto special = c < 0x80 ? kPlain.find(static_cast<char>(c)) : std::string_view::npos;
    if (special != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[special];
    } else if (c >= 0x20 && (!style_.ensure_ascii || c < 0x7f)) {
      out_ += bytes;
    } else if (c < 0x10000) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      const unsigned rest = static_cast<unsigned>(c) - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10U), 0xdc00 + (rest & 0x3ffU));
    }
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that parse to the same value, and their exponent.
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value), std::chars_format::scientific)
          .ptr;
  std::string digits(buffer, end);
  const std::size_t e = digits.find('e');
  const int exponent = std::stoi(digits.substr(e + 1));
  digits.resize(e);
  const std::string sign = std::signbit(value) ? "-" : "";
  // Python uses no exponent for 1e-4 <= |value| < 1e16.
  if (exponent < -4 || exponent >= 16)
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  std::erase(digits, '.');
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
  return sign + digits.insert(whole, ".");
}

std::string in_quotes(std::string_view text) {
  const bool use_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = use_double ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const auto value = static_cast<unsigned>(c.value);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      out += '\\';
      out += text[at];
    } else if (c.value == '\n' || c.value == '\r' || c.value == '\t') {
      out += c.value == '\n' ? "\\n" : (c.value == '\r' ? "\\r" : "\\t");
    } else if (c.size == 1 && c.value >= 0x80) {
      out += fmt::format("\\udc{:02x}", value & 0xffU);
    } else if (is_printable(c.value)) {
      out += text.substr(at, c.size);
    } else if (value < 0x100) {
      out += fmt::format("\\x{:02x}", value);
    } else if (value < 0x10000) {
      out += fmt::format("\\u{:04x}", value);
    } else {
      out += fmt::format("\\U{:08x}", value);
    }
    at += c.size;
  }
  return out + quote;
}

std::string to_repr(Runtime& runtime, const Value& value) {
  std::string out;
  append_repr(runtime, out, value);
  runtime.heap.step(out.size() / 64);
  return out;
}

std::string to_str(Runtime& runtime, const Value& value) {
  if (value.is_text()) {
    runtime.heap.step(value.str().size() / 64);
    return std::string(value.str());
  }
  if (value.is_undefined()) return "";
  return to_repr(runtime, value);
}

Value to_text(Runtime& runtime, const Value& value) {
  return value.is_text() ? value : runtime.heap.text(to_str(runtime, value));
}

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  return JsonWriter(runtime, style).write(value);
}

}  // namespace graft::jinja
