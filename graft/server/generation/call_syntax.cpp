#include "graft/server/generation/call_syntax.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/server/generation/call_parameters.h"
#include "graft/server/generation/pythonic_calls.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::optional<ToolCall> call_of(const std::string& name, const OrderedJson& arguments) {
  if (name.empty() || !arguments.is_object()) return std::nullopt;
  return ToolCall{.id = new_call_id(false), .name = name, .arguments = ordered_text(arguments)};
}

std::optional<OrderedJson> parsed(std::string_view text) {
  try {
    return parse_ordered_json(text, "call");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ToolCall> object_call(const OrderedJson& json) {
  if (!json.is_object()) return std::nullopt;
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return std::nullopt;
  // Some fine-tunes write "parameters", some write the object as a string.
  auto arguments = json.find("arguments");
  if (arguments == json.end()) arguments = json.find("parameters");
  if (arguments == json.end()) return call_of(*name, OrderedJson::object());
  if (!arguments->is_string()) return call_of(*name, *arguments);
  const std::optional<OrderedJson> inner = parsed(arguments->get<std::string>());
  return inner ? call_of(*name, *inner) : std::nullopt;
}

std::optional<ToolCall> hermes_call(std::string_view body) {
  const std::optional<OrderedJson> json = parsed(body);
  return json ? object_call(*json) : std::nullopt;
}

std::vector<ToolCall> list_of(std::optional<ToolCall> call) {
  std::vector<ToolCall> calls;
  if (call) calls.push_back(*std::move(call));
  return calls;
}

// None when one of the items is not a call.
std::vector<ToolCall> list_calls(std::string_view body) {
  const std::optional<OrderedJson> list = parsed(body);
  if (!list || !list->is_array()) return {};
  std::vector<ToolCall> calls;
  for (const OrderedJson& item : *list) {
    std::optional<ToolCall> call = object_call(item);
    if (!call) return {};
    calls.push_back(*std::move(call));
  }
  return calls;
}

// Objects that are separated by semicolons.
std::vector<ToolCall> separated_calls(std::string_view body) {
  std::vector<ToolCall> calls;
  while (!body.empty()) {
    const std::size_t end = body.find("};");
    const std::size_t size = end == std::string_view::npos ? body.size() : end + 1;
    std::optional<ToolCall> call = hermes_call(trimmed(body.substr(0, size), kBlanks));
    if (!call) return {};
    calls.push_back(*std::move(call));
    body = trimmed(body.substr(std::min(size + 1, body.size())), kBlanks);
  }
  return calls;
}

// The built-in tools of Llama 3.1: TOOL.call(query="…").
std::vector<PythonCall> builtin_calls(std::string_view body) {
  constexpr std::string_view kCall = ".call";
  std::vector<PythonCall> calls = parse_python_calls("[" + std::string(body) + "]");
  if (calls.size() != 1 || !calls[0].name.ends_with(kCall)) return {};
  calls[0].name.resize(calls[0].name.size() - kCall.size());
  return calls;
}

}  // namespace

std::string new_call_id(bool is_short) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::mt19937_64 random(std::random_device{}());
  std::string id = is_short ? "" : "call_";
  for (int i = 0; i < (is_short ? 9 : 24); ++i)
    id += kLetters[random() % kLetters.size()];
  return id;
}

std::vector<ToolCall> parse_hermes(std::string_view body, const OrderedJson& tools) {
  if (body.starts_with('{')) return list_of(hermes_call(body));
  if (body.starts_with('[')) return list_calls(body);
  // GLM writes a call without arguments as its name alone.
  if (find_tool(tools, body) == nullptr) return {};
  return list_of(call_of(std::string(body), OrderedJson::object()));
}

std::vector<ToolCall> parse_harmony(std::string_view body, const OrderedJson& /*tools*/) {
  constexpr std::string_view kSeparator = "<|message|>";
  if (!body.ends_with(kSeparator)) return {};
  body.remove_suffix(kSeparator.size());
  return list_of(call_of(std::string(trimmed(body, kBlanks)), OrderedJson::object()));
}

std::vector<ToolCall> parse_llama(std::string_view body, const OrderedJson& /*tools*/) {
  if (body.starts_with('{')) return separated_calls(body);
  std::vector<PythonCall> found = parse_python_calls(body);
  if (found.empty()) found = builtin_calls(body);
  std::vector<ToolCall> calls;
  for (const PythonCall& call : found) {
    std::optional<ToolCall> one = call_of(call.name, call.arguments);
    if (!one) return {};
    calls.push_back(*std::move(one));
  }
  return calls;
}

}  // namespace graft::server
