#include "graft/cli/run/batch_lines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "graft/base/error.h"
#include "graft/server/local/local_api.h"

namespace graft::cli {
namespace {

constexpr auto kKeys = std::to_array<std::string_view>(
    {"custom_id", "prompt", "messages", "tools", "max_tokens", "max_completion_tokens",
     "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
     "frequency_penalty", "seed", "stop", "model", "n", "stream"});

constexpr std::string_view kChatUrl = "/v1/chat/completions";
constexpr std::string_view kCompletionUrl = "/v1/completions";
constexpr std::string_view kEmbeddingUrl = "/v1/embeddings";

// Spellings of one setting: a body that has one of them keeps it.
constexpr auto kMaxTokens = std::to_array<const char*>({"max_tokens", "max_completion_tokens"});
constexpr auto kPenalty = std::to_array<const char*>({"repetition_penalty", "repeat_penalty"});
constexpr auto kThinking = std::to_array<const char*>(
    {"enable_thinking", "thinking", "reasoning", "reasoning_effort", "chat_template_kwargs"});
constexpr auto kStructured = std::to_array<const char*>(
    {"structured_outputs", "response_format", "guided_json", "guided_regex", "guided_choice",
     "guided_grammar", "json_schema", "grammar", "regex"});

// A value of the line, or null: absent or null.
const OrderedJson* find_value(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void fail_type(const char* key, const char* expected, const OrderedJson& value) {
  fail("\"", key, "\": expected ", expected, ", got ", value.type_name());
}

void read_number(const OrderedJson& object, const char* key, double& out) {
  const OrderedJson* value = find_value(object, key);
  if (value == nullptr) return;
  if (!value->is_number()) fail_type(key, "a number", *value);
  out = value->get<double>();
}

std::optional<std::int64_t> read_integer(const OrderedJson& object, const char* key) {
  const OrderedJson* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) fail_type(key, "an integer", *value);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > kMax)
    fail("\"", key, "\": ", value->dump(), " is too large");
  return value->get<std::int64_t>();
}

std::string read_text(const OrderedJson& object, const char* key) {
  const OrderedJson* value = find_value(object, key);
  if (value == nullptr) return {};
  if (!value->is_string()) fail_type(key, "a string", *value);
  return value->get<std::string>();
}

void check_body(const OrderedJson& body) {
  for (const auto& [key, value] : body.items()) {
    if (std::ranges::find(kKeys, key) == kKeys.end()) fail("unknown key \"", key, "\"");
  }
  if (read_integer(body, "n").value_or(1) != 1) fail("\"n\" must be 1");
  const OrderedJson* stream = find_value(body, "stream");
  if (stream != nullptr && *stream != false) fail("\"stream\" must be false");
  if (body.contains("prompt") == body.contains("messages"))
    fail(R"(expected either "prompt" or "messages")");
}

void read_stop(const OrderedJson& body, api::SamplingParams& params) {
  const OrderedJson* stop = find_value(body, "stop");
  if (stop == nullptr) return;
  params.stop.clear();
  const OrderedJson list = stop->is_array() ? *stop : OrderedJson::array({*stop});
  for (const OrderedJson& text : list) {
    if (!text.is_string()) fail_type("stop", "a string or a list of strings", text);
    params.stop.push_back(text.get<std::string>());
  }
}

void read_params(const OrderedJson& body, api::SamplingParams& params) {
  read_number(body, "temperature", params.temperature);
  read_number(body, "top_p", params.top_p);
  read_number(body, "min_p", params.min_p);
  read_number(body, "repetition_penalty", params.repetition_penalty);
  read_number(body, "presence_penalty", params.presence_penalty);
  read_number(body, "frequency_penalty", params.frequency_penalty);
  if (const auto top_k = read_integer(body, "top_k")) params.top_k = *top_k;
  if (const auto seed = read_integer(body, "seed")) params.seed = static_cast<std::uint64_t>(*seed);
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    if (const auto count = read_integer(body, key)) params.max_tokens = *count;
  }
  read_stop(body, params);
}

// Puts the system prompt before messages that have none.
void add_system(const std::string& system, OrderedJson& messages) {
  if (system.empty() || !messages.is_array()) return;
  if (!messages.empty() && messages.front().is_object()) {
    const OrderedJson role = messages.front().value("role", OrderedJson());
    if (role == "system" || role == "developer") return;
  }
  const OrderedJson message = {{"role", "system"}, {"content", system}};
  messages.insert(messages.begin(), message);
}

void read_body(const OrderedJson& body, const BatchDefaults& defaults, BatchLine& line) {
  check_body(body);
  read_params(body, line.params);
  line.conversation.thinking = defaults.thinking;
  line.conversation.tools = body.value("tools", OrderedJson());
  if (body.contains("messages")) {
    line.raw = false;
    line.conversation.messages = body.at("messages");
    add_system(defaults.system, line.conversation.messages);
    return;
  }
  line.prompt = read_text(body, "prompt");
  if (!defaults.system.empty())
    line.conversation.messages.push_back({{"role", "system"}, {"content", defaults.system}});
  line.conversation.messages.push_back({{"role", "user"}, {"content", line.prompt}});
}

// The endpoint of a line without "url".
std::string_view url_of(const OrderedJson& body) {
  if (body.contains("messages")) return kChatUrl;
  return body.contains("input") ? kEmbeddingUrl : kCompletionUrl;
}

std::string read_url(const OrderedJson& json, const OrderedJson& body) {
  std::string url = read_text(json, "url");
  if (url.empty()) return std::string(url_of(body));
  const auto& known = server::LocalApi::paths();
  if (std::ranges::find(known, url) != known.end()) return url;
  std::string list;
  for (const std::string_view path : known)
    list += str(list.empty() ? "" : path == known.back() ? " or " : ", ", path);
  fail(R"("url" is ")", url, R"(", expected )", list);
}

bool has_one_of(const OrderedJson& body, std::span<const char* const> names) {
  return std::ranges::any_of(names,
                             [&](const char* name) { return find_value(body, name) != nullptr; });
}

bool has_setting(const OrderedJson& body, const std::string& name) {
  for (const std::span<const char* const> names : std::to_array<std::span<const char* const>>(
           {kMaxTokens, kPenalty, kThinking, kStructured})) {
    if (std::ranges::find(names, name) != names.end()) return has_one_of(body, names);
  }
  return find_value(body, name.c_str()) != nullptr;
}

// {"custom_id": …, "method": "POST", "url": …, "body": {…}}
void read_openai(const OrderedJson& json, const BatchDefaults& defaults, BatchLine& line) {
  line.is_openai = true;
  const std::string method = read_text(json, "method");
  if (!method.empty() && method != "POST") fail(R"("method" is ")", method, R"(", expected POST)");
  line.body = json.at("body");
  if (!line.body.is_object()) fail_type("body", "an object", line.body);
  line.url = read_url(json, line.body);
  const OrderedJson* stream = find_value(line.body, "stream");
  if (stream != nullptr && *stream != false) fail("\"stream\" must be false");
  line.body.erase("model");
  if (line.url != kChatUrl && line.url != kCompletionUrl) return;
  for (const auto& [name, value] : defaults.fields.items()) {
    const bool is_thinking = std::ranges::find(kThinking, name) != kThinking.end();
    if (is_thinking && line.url != kChatUrl) continue;
    if (!has_setting(line.body, name)) line.body[name] = value;
  }
  if (line.body.contains("messages")) add_system(defaults.system, line.body["messages"]);
}

BatchLine read_line(std::string_view text, std::size_t number, const BatchDefaults& defaults) {
  BatchLine line;
  line.params = defaults.params;
  line.raw = defaults.raw;
  const std::string where = str("line ", number);
  try {
    const OrderedJson json = parse_ordered_json(text, where);
    if (!json.is_object()) fail("expected an object, got ", json.type_name());
    line.id = json.value("custom_id", OrderedJson());
    if (json.contains("body")) {
      read_openai(json, defaults, line);
    } else {
      read_body(json, defaults, line);
    }
  } catch (const Error& error) {
    const std::string what = error.what();
    line.error = what.starts_with(where) ? what : str(where, ": ", what);
  }
  return line;
}

}  // namespace

std::vector<BatchLine> parse_batch(std::string_view text,
                                   const std::string& name,
                                   const BatchDefaults& defaults) {
  std::vector<BatchLine> lines;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    lines.push_back(read_line(line, number, defaults));
  }
  if (lines.empty()) fail(name, ": no requests in the file");
  return lines;
}

}  // namespace graft::cli
