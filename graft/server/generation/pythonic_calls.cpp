#include "graft/server/generation/pythonic_calls.h"

#include <cctype>
#include <optional>
#include <utility>

#include "graft/base/error.h"

namespace graft::server {
namespace {

constexpr int kMaxDepth = 64;  // of nested lists and dicts

// Every function removes what it reads from the front of the text, blanks before it included, and
// fails (false, nullopt) at anything else.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_blanks();
    return text_.empty();
  }

  bool take(char c) {
    skip_blanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::optional<PythonCall> call() {
    PythonCall call = {.name = word(), .arguments = OrderedJson::object()};
    if (call.name.empty() || !take('(')) return std::nullopt;
    while (!take(')')) {
      const std::string key = word();
      if (key.empty() || !take('=')) return std::nullopt;
      std::optional<OrderedJson> given = value(0);
      if (!given) return std::nullopt;
      call.arguments[key] = *std::move(given);
      if (take(',')) continue;
      if (!take(')')) return std::nullopt;
      break;
    }
    return call;
  }

 private:
  void skip_blanks() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front())) != 0)
      text_.remove_prefix(1);
  }

  // An identifier; functions may have dots and hyphens.
  std::string word() {
    skip_blanks();
    std::size_t size = 0;
    while (size < text_.size()) {
      const char c = text_[size];
      const bool is_part = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
                           ((c == '.' || c == '-') && size > 0);
      if (!is_part) break;
      ++size;
    }
    std::string found(text_.substr(0, size));
    text_.remove_prefix(size);
    return found;
  }

  std::optional<OrderedJson> value(int depth) {
    skip_blanks();
    if (text_.empty() || depth > kMaxDepth) return std::nullopt;
    const char first = text_.front();
    if (first == '"' || first == '\'') return text_literal();
    if (first == '[') return list(depth, '[', ']');
    if (first == '(') return list(depth, '(', ')');
    if (first == '{') return dict(depth);
    return plain();
  }

  std::optional<OrderedJson> list(int depth, char open, char close) {
    OrderedJson items = OrderedJson::array();
    take(open);
    while (!take(close)) {
      std::optional<OrderedJson> item = value(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(*std::move(item));
      if (take(',')) continue;
      if (!take(close)) return std::nullopt;
      break;
    }
    return items;
  }

  std::optional<OrderedJson> dict(int depth) {
    OrderedJson items = OrderedJson::object();
    take('{');
    while (!take('}')) {
      skip_blanks();
      const std::optional<OrderedJson> key = value(depth + 1);
      if (!key || !key->is_string() || !take(':')) return std::nullopt;
      std::optional<OrderedJson> item = value(depth + 1);
      if (!item) return std::nullopt;
      items[key->get<std::string>()] = *std::move(item);
      if (take(',')) continue;
      if (!take('}')) return std::nullopt;
      break;
    }
    return items;
  }

  std::optional<OrderedJson> text_literal() {
    const char quote = text_.front();
    text_.remove_prefix(1);
    std::string found;
    while (!text_.empty() && text_.front() != quote) {
      const char c = text_.front();
      text_.remove_prefix(1);
      if (c != '\\' || text_.empty()) {
        found += c;
      } else if (!escape(found)) {
        return std::nullopt;
      }
    }
    if (text_.empty()) return std::nullopt;
    text_.remove_prefix(1);
    return OrderedJson(found);
  }

  // What follows a backslash. Unknown escapes are the character itself.
  bool escape(std::string& out) {
    constexpr std::string_view kLetters = "ntrbf";
    constexpr std::string_view kCharacters = "\n\t\r\b\f";
    const char letter = text_.front();
    text_.remove_prefix(1);
    if (letter == 'u') return unicode_escape(out);
    const std::size_t at = kLetters.find(letter);
    out += at == std::string_view::npos ? letter : kCharacters[at];
    return true;
  }

  // Four hexadecimal digits; a pair of surrogates, as JSON writes them, is one character.
  bool unicode_escape(std::string& out) {
    constexpr std::size_t kNumDigits = 4;
    constexpr std::string_view kNext = "\\u";
    std::string_view digits = text_.substr(0, kNumDigits);
    const bool is_high = digits.size() == kNumDigits && (digits[0] == 'd' || digits[0] == 'D') &&
                         std::string_view("89abAB").find(digits[1]) != std::string_view::npos;
    if (is_high && text_.substr(kNumDigits).starts_with(kNext))
      digits = text_.substr(0, 2 * kNumDigits + kNext.size());
    try {
      out += parse_json("\"\\u" + std::string(digits) + "\"", "text").get<std::string>();
    } catch (const Error&) {
      return false;
    }
    text_.remove_prefix(digits.size());
    return true;
  }

  // True, False, None, JSON's spellings, and numbers.
  std::optional<OrderedJson> plain() {
    std::size_t size = text_.find_first_of(",)]}: \t\r\n");
    if (size == std::string_view::npos) size = text_.size();
    const std::string_view token = text_.substr(0, size);
    text_.remove_prefix(size);
    if (token == "True" || token == "true") return OrderedJson(true);
    if (token == "False" || token == "false") return OrderedJson(false);
    if (token == "None" || token == "null") return OrderedJson(nullptr);
    try {
      OrderedJson number = parse_ordered_json(token, "number");
      if (number.is_number()) return number;
    } catch (const Error&) {
      return std::nullopt;
    }
    return std::nullopt;
  }

  std::string_view text_;
};

}  // namespace

std::vector<PythonCall> parse_python_calls(std::string_view text) {
  PythonReader reader(text);
  std::vector<PythonCall> calls;
  if (!reader.take('[')) return {};
  while (!reader.take(']')) {
    std::optional<PythonCall> call = reader.call();
    if (!call) return {};
    calls.push_back(*std::move(call));
    if (reader.take(',')) continue;
    if (!reader.take(']')) return {};
    break;
  }
  return reader.at_end() ? calls : std::vector<PythonCall>{};
}

}  // namespace graft::server
