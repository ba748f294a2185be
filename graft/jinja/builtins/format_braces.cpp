// str.format: "{} of {0[key].name!r:>8}".

#include <algorithm>

#include "graft/jinja/runtime.h"

namespace graft::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const CallArgs& args, bool is_markup)
      : runtime_(runtime), args_(args), is_markup_(is_markup) {}

  std::string run(std::string_view format, int depth) {
    if (depth > 1) raise("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < format.size();) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        const std::size_t end = std::min(format.find_first_of("{}", at), format.size());
        out += format.substr(at, end - at);
        at = end;
      } else if (at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        raise("Single '}' encountered in format string");
      } else {
        const std::size_t close = matching_brace(format, at);
        out += field(format.substr(at + 1, close - at - 1), depth);
        at = close + 1;
      }
      runtime_.heap.check_memory(out.size());
    }
    return out;
  }

 private:
  static std::size_t matching_brace(std::string_view format, std::size_t open) {
    int level = 0;
    for (std::size_t at = open; at < format.size(); ++at) {
      if (format[at] == '{') ++level;
      if (format[at] == '}' && --level == 0) return at;
    }
    raise("expected '}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    // A "!" or ":" inside [] belongs to the key.
    std::size_t end = 0;
    for (bool in_key = false; end < text.size(); ++end) {
      if (text[end] == '[') in_key = true;
      if (text[end] == ']') in_key = false;
      if (!in_key && (text[end] == '!' || text[end] == ':')) break;
    }
    Value value = lookup(text.substr(0, end));
    text.remove_prefix(end);
    if (text.starts_with('!')) {
      if (text.size() < 2 || (text.size() > 2 && text[2] != ':'))
        raise("expected ':' after conversion specifier");
      const char conversion = text[1];
      text.remove_prefix(2);
      if (conversion != 's' && conversion != 'r' && conversion != 'a')
        raise("Unknown conversion specifier ", conversion);
      value = conversion == 's' ? to_text(runtime_, value)
                                : runtime_.heap.text(to_repr(runtime_, value));
    }
    const std::string spec = text.empty() ? "" : run(text.substr(1), depth + 1);
    std::string out = format_value(runtime_, value, spec);
    const bool is_safe = value.is_text() && value.text().is_markup;
    return is_markup_ && !is_safe && depth == 0 ? escape_html(out) : out;
  }

  Value lookup(std::string_view name) {
    std::size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, end));
    while (end < name.size()) {
      if (name[end] == '.') {
        const std::size_t next = std::min(name.find_first_of(".[", end + 1), name.size());
        if (next == end + 1) raise("Empty attribute in format string");
        value = get_attribute(runtime_, value, name.substr(end + 1, next - end - 1));
        end = next;
      } else if (name[end] == '[') {
        const std::size_t close = name.find(']', end);
        if (close == std::string_view::npos) raise("Missing ']' in format string");
        if (close == end + 1) raise("Empty attribute in format string");
        value = get_item(runtime_, value, key(name.substr(end + 1, close - end - 1)));
        end = close + 1;
      } else {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 18 &&
           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  }

  Value key(std::string_view text) {
    if (!is_number(text)) return runtime_.heap.text(std::string(text));
    return Value(static_cast<std::int64_t>(std::stoll(std::string(text))));
  }

  Value first(std::string_view name) {
    if (!name.empty() && !is_number(name)) {
      const auto found = std::ranges::find(
          args_.named, name, [](const auto& entry) { return std::string_view(entry.first); });
      if (found == args_.named.end()) raise("KeyError: ", in_quotes(name));
      return found->second;
    }
    std::size_t index = 0;
    if (name.empty()) {
      if (uses_numbers_) raise("cannot switch from manual field specification to automatic");
      index = next_++;
    } else {
      if (next_ > 0) raise("cannot switch from automatic field numbering to manual");
      uses_numbers_ = true;
      index = std::stoull(std::string(name));
    }
    if (index >= args_.positional.size())
      raise("Replacement index ", index, " out of range for positional args tuple");
    return args_.positional[index];
  }

  Runtime& runtime_;
  const CallArgs& args_;
  bool is_markup_;
  std::size_t next_ = 0;
  bool uses_numbers_ = false;
};

}  // namespace

Value format_braces(Runtime& runtime, const Value& format, const CallArgs& args) {
  const Text& text = format.text();
  return runtime.heap.text(BraceFormatter(runtime, args, text.is_markup).run(text.bytes, 0),
                           text.is_markup);
}

}  // namespace graft::jinja
