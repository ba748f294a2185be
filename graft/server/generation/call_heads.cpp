#include "graft/server/generation/call_heads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/json.h"
#include "graft/server/generation/call_parameters.h"

namespace graft::server {
namespace {

using HeadKind = CallHead::Kind;

constexpr std::string_view kHeadBlanks = " \t\r\n";

// Reads text from its front. is_short() tells a failure at the end of the text from others.
class HeadReader {
 public:
  explicit HeadReader(std::string_view text) : text_(text), size_(text.size()) {}

  bool is_short() const { return is_short_; }
  std::size_t position() const { return size_ - text_.size(); }

  void skip_blanks() {
    text_.remove_prefix(std::min(text_.find_first_not_of(kHeadBlanks), text_.size()));
  }

  // The next byte after blanks; 0 at the end of the text.
  char peek() {
    skip_blanks();
    is_short_ = is_short_ || text_.empty();
    return text_.empty() ? '\0' : text_.front();
  }

  bool take(std::string_view literal) {
    skip_blanks();
    if (text_.starts_with(literal)) {
      text_.remove_prefix(literal.size());
      return true;
    }
    is_short_ = is_short_ || literal.starts_with(text_);
    return false;
  }

  // Up to a literal, which is removed.
  std::optional<std::string_view> take_until(std::string_view literal) {
    const std::size_t end = text_.find(literal);
    is_short_ = is_short_ || end == std::string_view::npos;
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view found = text_.substr(0, end);
    text_.remove_prefix(end + literal.size());
    return trimmed(found, kHeadBlanks);
  }

  std::optional<std::string> json_string() {
    if (!take("\"")) return std::nullopt;
    std::size_t end = 0;
    while (end < text_.size() && text_[end] != '"')
      end += text_[end] == '\\' ? 2 : 1;
    is_short_ = is_short_ || end >= text_.size();
    if (is_short_) return std::nullopt;
    const std::string quoted = "\"" + std::string(text_.substr(0, end + 1));
    text_.remove_prefix(end + 1);
    try {
      return parse_json(quoted, "call").get<std::string>();
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
  std::size_t size_;
  bool is_short_ = false;
};

CallHead not_a_head(const HeadReader& reader) {
  return {.kind = reader.is_short() ? HeadKind::Incomplete : HeadKind::Other};
}

// A head whose arguments must begin here.
CallHead json_head(HeadReader& reader, std::string name, std::string id = {}) {
  if (reader.peek() != '{') return not_a_head(reader);
  if (name.empty()) return {.kind = HeadKind::Other};
  return {.kind = HeadKind::Json,
          .size = reader.position(),
          .name = std::move(name),
          .id = std::move(id)};
}

// The name of a call with parameters, up to '>', with or without quotes.
CallHead attribute_head(HeadReader reader, const ParameterSyntax& syntax) {
  const std::optional<std::string_view> found = reader.take_until(">");
  if (!found) return not_a_head(reader);
  const std::string_view name = trimmed(*found, "\"' \t\r\n");
  if (name.empty()) return {.kind = HeadKind::Other};
  return {.kind = HeadKind::Parameters,
          .size = reader.position(),
          .name = std::string(name),
          .syntax = &syntax};
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':' || c == '/';
}

// Letters of a name from the front of the text.
std::string_view name_of(std::string_view text) {
  return text.substr(
      0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_name_byte) - text.begin()));
}

}  // namespace

CallHead object_head(std::string_view text) {
  HeadReader reader(text);
  if (reader.peek() == '[') reader.take("[");
  if (!reader.take("{")) return not_a_head(reader);
  std::string name;
  for (;;) {
    const std::optional<std::string> key = reader.json_string();
    if (!key || !reader.take(":")) return not_a_head(reader);
    // Some fine-tunes write "parameters".
    if (*key == "arguments" || *key == "parameters") return json_head(reader, name);
    const std::optional<std::string> value = reader.json_string();
    if (!value || !reader.take(",")) return not_a_head(reader);
    if (*key == "name") name = *value;
    if (*key != "name" && *key != "id" && *key != "type") return {.kind = HeadKind::Other};
  }
}

CallHead text_member(std::string_view text) {
  HeadReader reader(text);
  const std::optional<std::string> key = reader.json_string();
  if (!key || !reader.take(":") || !reader.json_string()) return not_a_head(reader);
  if (*key != "id" && *key != "type") return {.kind = HeadKind::Other};
  return {.kind = HeadKind::Json, .size = reader.position()};
}

CallHead hermes_head(std::string_view text) {
  HeadReader reader(text);
  const char first = reader.peek();
  if (first == '{' || first == '[') return object_head(text);
  if (first == '<') {
    if (!reader.take("<function=")) return not_a_head(reader);
    return attribute_head(reader, kFunctionParameters);
  }
  // GLM: the name, then the first key.
  const std::size_t end = text.find(kGlmParameters.open);
  if (end == std::string_view::npos) return {};
  const std::string_view name = trimmed(text.substr(0, end), kHeadBlanks);
  return {.kind = HeadKind::Parameters,
          .size = end,
          .name = std::string(name),
          .syntax = &kGlmParameters};
}

CallHead deepseek_head(std::string_view text) {
  HeadReader reader(text);
  const std::optional<std::string_view> name = reader.take_until("<｜tool▁sep｜>");
  if (!name) return not_a_head(reader);
  if (*name != "function" || reader.peek() == '{') return json_head(reader, std::string(*name));
  // V3 and R1: function<sep>name, then the arguments in a fenced code block.
  const std::optional<std::string_view> function = reader.take_until("```json");
  return function ? json_head(reader, std::string(*function)) : not_a_head(reader);
}

CallHead minimax_head(std::string_view text) {
  return attribute_head(HeadReader(text), kMiniMaxParameters);
}

// "functions.NAME:INDEX", then the arguments. The model refers to its calls by this id.
CallHead kimi_head(std::string_view text) {
  constexpr std::string_view kPrefix = "functions.";
  HeadReader reader(text);
  const std::optional<std::string_view> id = reader.take_until("<|tool_call_argument_begin|>");
  if (!id) return not_a_head(reader);
  std::string_view name = id->substr(0, id->rfind(':'));
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return json_head(reader, std::string(name), std::string(*id));
}

CallHead harmony_head(std::string_view text) {
  HeadReader reader(text);
  const std::optional<std::string_view> name = reader.take_until("<|message|>");
  return name ? json_head(reader, std::string(*name)) : not_a_head(reader);
}

CallHead dsml_head(std::string_view text) {
  return attribute_head(HeadReader(text), kDsmlParameters);
}

// A JSON list, or NAME[ARGS]{…}, with [CALL_ID]ID between them in some versions.
CallHead mistral_head(std::string_view text) {
  constexpr std::string_view kCallId = "[CALL_ID]";
  HeadReader reader(text);
  const char first = reader.peek();
  if (first == '{' || first == '[') return object_head(text);
  const std::string_view name = name_of(reader.rest());
  if (name.size() == reader.rest().size()) return {};
  reader.take(name);
  std::string id;
  if (reader.take(kCallId)) {
    id = name_of(reader.rest());
    if (id.size() == reader.rest().size()) return {};
    reader.take(id);
  }
  const bool has_arguments = reader.take("[ARGS]") || reader.peek() == '{';
  if (!has_arguments) return not_a_head(reader);
  return json_head(reader, std::string(name), id);
}

CallHead llama_head(std::string_view text) {
  HeadReader reader(text);
  const char first = reader.peek();
  if (first == '\0') return {};
  return first == '{' ? object_head(text) : CallHead{.kind = HeadKind::Other};
}

}  // namespace graft::server
