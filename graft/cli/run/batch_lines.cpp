#include "graft/cli/run/batch_lines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

constexpr auto kKeys = std::to_array<std::string_view>(
    {"custom_id", "prompt", "messages", "tools", "max_tokens", "max_completion_tokens",
     "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
     "frequency_penalty", "seed", "stop", "model", "n", "stream"});

constexpr std::string_view kChatUrl = "/v1/chat/completions";
constexpr std::string_view kCompletionUrl = "/v1/completions";

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

void read_body(const OrderedJson& body, const BatchDefaults& defaults, BatchLine& line) {
  check_body(body);
  read_params(body, line.params);
  line.conversation.thinking = defaults.thinking;
  line.conversation.tools = body.value("tools", OrderedJson());
  if (body.contains("messages")) {
    line.raw = false;
    line.conversation.messages = body.at("messages");
    return;
  }
  line.prompt = read_text(body, "prompt");
  if (!defaults.system.empty())
    line.conversation.messages.push_back({{"role", "system"}, {"content", defaults.system}});
  line.conversation.messages.push_back({{"role", "user"}, {"content", line.prompt}});
}

// {"custom_id": …, "method": "POST", "url": …, "body": {…}}
const OrderedJson& openai_body(const OrderedJson& json, BatchLine& line) {
  line.is_openai = true;
  const std::string method = read_text(json, "method");
  if (!method.empty() && method != "POST") fail(R"("method" is ")", method, R"(", expected POST)");
  const std::string url = read_text(json, "url");
  if (!url.empty() && url != kChatUrl && url != kCompletionUrl)
    fail(R"("url" is ")", url, R"(", expected )", kChatUrl, " or ", kCompletionUrl);
  line.raw = line.raw || url == kCompletionUrl;
  const OrderedJson& body = json.at("body");
  if (!body.is_object()) fail_type("body", "an object", body);
  return body;
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
    read_body(json.contains("body") ? openai_body(json, line) : json, defaults, line);
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
