// Methods of str that search or split.

#include <algorithm>
#include <array>
#include <optional>

#include "graft/jinja/builtins/builtin.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

// The text[start:end] that methods of str search in.
struct Window {
  std::string_view text;
  std::size_t begin = 0;             // byte offset
  std::size_t first_code_point = 0;  // code points before it
  bool is_valid = true;              // false for start > end: nothing is found, not even ""
};

Window window(const Text& text, const Args& args, std::size_t start_at) {
  const auto size = static_cast<std::int64_t>(text.length);
  const auto bound = [&](std::size_t index, std::int64_t fallback) {
    if (!args.has(index)) return fallback;
    const std::int64_t value = args.integer(index, 0);
    return value < 0 ? std::max<std::int64_t>(0, value + size) : value;
  };
  const std::int64_t start = bound(start_at, 0);
  const std::int64_t end = std::min(size, bound(start_at + 1, size));
  if (start > end) return {.text = {}, .is_valid = false};
  const auto offset = [&](std::int64_t index) {
    const auto code_point = static_cast<std::size_t>(index);
    return text.is_ascii() ? code_point : byte_offset(text.bytes, code_point);
  };
  const std::size_t begin = offset(start);
  return {.text = std::string_view(text.bytes).substr(begin, offset(end) - begin),
          .begin = begin,
          .first_code_point = static_cast<std::size_t>(start)};
}

std::int64_t find_in(Runtime& runtime, const Args& args, bool from_right) {
  const Window in = window(args.self.text(), args, 1);
  const std::string_view part = args.text(0);
  if (!in.is_valid) return -1;
  runtime.heap.step(1 + in.text.size() / 64 + in.text.size() / 4096 * part.size());
  const std::size_t found = from_right ? in.text.rfind(part) : in.text.find(part);
  if (found == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(in.first_code_point + num_code_points(in.text.substr(0, found)));
}

Value find(Runtime& runtime, Args& args) {
  return Value(find_in(runtime, args, false));
}
Value rfind(Runtime& runtime, Args& args) {
  return Value(find_in(runtime, args, true));
}

Value found_or_raise(std::int64_t at) {
  if (at < 0) raise("substring not found");
  return Value(at);
}
Value str_index(Runtime& runtime, Args& args) {
  return found_or_raise(find_in(runtime, args, false));
}
Value rindex(Runtime& runtime, Args& args) {
  return found_or_raise(find_in(runtime, args, true));
}

Value str_count(Runtime& runtime, Args& args) {
  const Window in = window(args.self.text(), args, 1);
  const std::string_view part = args.text(0);
  if (!in.is_valid) return Value(std::int64_t{0});
  if (part.empty()) return Value::size(num_code_points(in.text) + 1);
  runtime.heap.step(1 + in.text.size() / 64 + in.text.size() / 4096 * part.size());
  std::int64_t number = 0;
  for (std::size_t at = in.text.find(part); at != std::string_view::npos;
       at = in.text.find(part, at + part.size()))
    ++number;
  return Value(number);
}

bool matches_affix(std::string_view text, const Value& part, bool at_start) {
  if (!part.is_text()) raise("expected a string or a tuple of strings, not ", type_name(part));
  return at_start ? text.starts_with(part.str()) : text.ends_with(part.str());
}

Value has_affix(const Args& args, bool at_start) {
  const Window in = window(args.self.text(), args, 1);
  if (!args[0].is(Kind::Tuple)) {
    const bool matches = matches_affix(in.text, args[0], at_start);
    return Value(in.is_valid && matches);
  }
  for (const Value& part : args[0].items()) {
    if (matches_affix(in.text, part, at_start)) return Value(in.is_valid);
  }
  return Value(false);
}

Value startswith(Runtime& /*runtime*/, Args& args) {
  return has_affix(args, true);
}
Value endswith(Runtime& /*runtime*/, Args& args) {
  return has_affix(args, false);
}

class SplitResult {
 public:
  explicit SplitResult(Runtime& runtime) : runtime_(runtime) {}
  void add(std::string_view part) {
    items_.push_back(runtime_.heap.text(std::string(part)));
    if (items_.size() % 1024 == 0) runtime_.heap.check_memory(items_.size() * sizeof(Value));
  }
  Value list() { return runtime_.heap.list(std::move(items_)); }
  Value reversed() {
    std::ranges::reverse(items_);
    return list();
  }

 private:
  Runtime& runtime_;
  std::vector<Value> items_;
};

Value split_space(Runtime& runtime, std::string_view text, std::int64_t limit) {
  SplitResult result(runtime);
  for (text = strip_space(text, Side::Left); !text.empty(); text = strip_space(text, Side::Left)) {
    if (limit-- == 0) {
      result.add(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size()) {
      const CodePoint c = decode_utf8(text, end);
      if (is_space(c.value)) break;
      end += c.size;
    }
    result.add(text.substr(0, end));
    text.remove_prefix(end);
  }
  return result.list();
}

// The offset where the last word begins.
std::size_t last_word(std::string_view text) {
  for (std::size_t at = text.size(); at > 0;) {
    std::size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U)
      --begin;
    if (is_space(decode_utf8(text, begin).value)) return at;
    at = begin;
  }
  return 0;
}

Value rsplit_space(Runtime& runtime, std::string_view text, std::int64_t limit) {
  SplitResult result(runtime);
  for (text = strip_space(text, Side::Right); !text.empty();
       text = strip_space(text, Side::Right)) {
    if (limit-- == 0) {
      result.add(text);
      break;
    }
    const std::size_t begin = last_word(text);
    result.add(text.substr(begin));
    text = text.substr(0, begin);
  }
  return result.reversed();
}

std::string_view separator(Runtime& runtime, const Args& args) {
  const std::string_view part = args.text(0);
  if (part.empty()) raise("empty separator");
  runtime.heap.step(args.self.str().size() / 4096 * part.size());
  return part;
}

Value split(Runtime& runtime, Args& args) {
  std::string_view text = args.self.str();
  std::int64_t limit = args.integer(1, -1);
  if (!args.has(0)) return split_space(runtime, text, limit);
  const std::string_view part = separator(runtime, args);
  SplitResult result(runtime);
  while (limit-- != 0) {
    const std::size_t end = text.find(part);
    if (end == std::string_view::npos) break;
    result.add(text.substr(0, end));
    text.remove_prefix(end + part.size());
  }
  result.add(text);
  return result.list();
}

Value rsplit(Runtime& runtime, Args& args) {
  std::string_view text = args.self.str();
  std::int64_t limit = args.integer(1, -1);
  if (!args.has(0)) return rsplit_space(runtime, text, limit);
  const std::string_view part = separator(runtime, args);
  SplitResult result(runtime);
  while (limit-- != 0) {
    const std::size_t begin = text.rfind(part);
    if (begin == std::string_view::npos) break;
    result.add(text.substr(begin + part.size()));
    text = text.substr(0, begin);
  }
  result.add(text);
  return result.reversed();
}

Value splitlines(Runtime& runtime, Args& args) {
  const std::string_view text = args.self.str();
  const bool keep_ends = args.flag(0, false);
  SplitResult result(runtime);
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const std::size_t line_end = at;
    at += c.size;
    if (!is_line_break(c.value)) continue;
    if (c.value == '\r' && at < text.size() && text[at] == '\n') ++at;
    result.add(text.substr(begin, (keep_ends ? at : line_end) - begin));
    begin = at;
  }
  if (begin < text.size()) result.add(text.substr(begin));
  return result.list();
}

Value parts(Runtime& runtime, std::string_view a, std::string_view b, std::string_view c) {
  const auto text = [&](std::string_view part) { return runtime.heap.text(std::string(part)); };
  return runtime.heap.tuple({text(a), text(b), text(c)});
}

Value partition(Runtime& runtime, Args& args) {
  const std::string_view text = args.self.str();
  const std::string_view part = separator(runtime, args);
  const std::size_t at = text.find(part);
  if (at == std::string_view::npos) return parts(runtime, text, "", "");
  return parts(runtime, text.substr(0, at), part, text.substr(at + part.size()));
}

Value rpartition(Runtime& runtime, Args& args) {
  const std::string_view text = args.self.str();
  const std::string_view part = separator(runtime, args);
  const std::size_t at = text.rfind(part);
  if (at == std::string_view::npos) return parts(runtime, "", "", text);
  return parts(runtime, text.substr(0, at), part, text.substr(at + part.size()));
}

// clang-format off
constexpr std::array kTextSearchMethods = {
    Builtin{"find", "/sub start end", 1, find},
    Builtin{"rfind", "/sub start end", 1, rfind},
    Builtin{"index", "/sub start end", 1, str_index},
    Builtin{"rindex", "/sub start end", 1, rindex},
    Builtin{"count", "/sub start end", 1, str_count},
    Builtin{"startswith", "/prefix start end", 1, startswith},
    Builtin{"endswith", "/suffix start end", 1, endswith},
    Builtin{"split", "sep maxsplit", 0, split},
    Builtin{"rsplit", "sep maxsplit", 0, rsplit},
    Builtin{"splitlines", "keepends", 0, splitlines},
    Builtin{"partition", "/sep", 1, partition},
    Builtin{"rpartition", "/sep", 1, rpartition},
};
// clang-format on

}  // namespace

std::span<const Builtin> text_search_methods() {
  return kTextSearchMethods;
}

}  // namespace graft::jinja
