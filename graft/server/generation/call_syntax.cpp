#include "graft/server/generation/call_syntax.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/server/generation/pythonic_calls.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kDeepSeekSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kKimiSeparator = "<|tool_call_argument_begin|>";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionClose = "</function>";
constexpr std::string_view kHarmonySeparator = "<|message|>";

std::string new_call_id() {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::mt19937_64 random(std::random_device{}());
  std::string id = "call_";
  for (int i = 0; i < 24; ++i)
    id += kLetters[random() % kLetters.size()];
  return id;
}

std::optional<ToolCall> call_of(const std::string& name, const OrderedJson& arguments) {
  if (name.empty() || !arguments.is_object()) return std::nullopt;
  return ToolCall{.id = new_call_id(), .name = name, .arguments = ordered_text(arguments)};
}

std::optional<OrderedJson> parsed(std::string_view text) {
  try {
    return parse_ordered_json(text, "call");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ToolCall> hermes_call(std::string_view body) {
  const std::optional<OrderedJson> json = parsed(body);
  if (!json || !json->is_object()) return std::nullopt;
  const auto name = json->find("name");
  if (name == json->end() || !name->is_string()) return std::nullopt;
  // Some fine-tunes write "parameters", some write the object as a string.
  auto arguments = json->find("arguments");
  if (arguments == json->end()) arguments = json->find("parameters");
  if (arguments == json->end()) return call_of(*name, OrderedJson::object());
  if (!arguments->is_string()) return call_of(*name, *arguments);
  const std::optional<OrderedJson> inner = parsed(arguments->get<std::string>());
  return inner ? call_of(*name, *inner) : std::nullopt;
}

std::optional<ToolCall> deepseek_call(std::string_view body) {
  const std::size_t separator = body.find(kDeepSeekSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  std::string_view name = trimmed(body.substr(0, separator), kBlanks);
  std::string_view rest = trimmed(body.substr(separator + kDeepSeekSeparator.size()), kBlanks);
  // V3 and R1: function<sep>name, then the arguments in a fenced code block.
  const std::size_t fence = rest.find("```json");
  if (name == "function" && fence != std::string_view::npos) {
    name = trimmed(rest.substr(0, fence), kBlanks);
    rest = rest.substr(fence + 7);
    rest = trimmed(rest.substr(0, rest.rfind("```")), kBlanks);
  }
  const std::optional<OrderedJson> arguments = parsed(rest);
  return arguments ? call_of(std::string(name), *arguments) : std::nullopt;
}

// Removes `"VALUE">` or `VALUE>` from the front of a text and returns VALUE.
std::optional<std::string> take_attribute(std::string_view& text) {
  const std::size_t end = text.find('>');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string value(trimmed(text.substr(0, end), " \t\r\n\"'"));
  text.remove_prefix(end + 1);
  return value;
}

// A line break on each side of a value is not part of it.
std::string_view without_line_breaks(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

// `"NAME">`, then the parameters, which begin with `open`. All values are text here:
// type_arguments() converts them.
std::optional<ToolCall> parameters_call(std::string_view body, std::string_view open) {
  constexpr std::string_view kClose = "</parameter>";
  const std::optional<std::string> name = take_attribute(body);
  if (!name) return std::nullopt;
  OrderedJson arguments = OrderedJson::object();
  for (body = trimmed(body, kBlanks); !body.empty(); body = trimmed(body, kBlanks)) {
    if (!body.starts_with(open)) return std::nullopt;
    body.remove_prefix(open.size());
    const std::optional<std::string> key = take_attribute(body);
    const std::size_t close = body.find(kClose);
    if (!key || key->empty() || close == std::string_view::npos) return std::nullopt;
    arguments[*key] = std::string(without_line_breaks(body.substr(0, close)));
    body.remove_prefix(close + kClose.size());
  }
  return call_of(*name, arguments);
}

// Qwen3-Coder and Qwen3.5: <function=NAME><parameter=KEY>VALUE</parameter></function>.
std::optional<ToolCall> function_call(std::string_view body) {
  body.remove_prefix(kFunctionOpen.size());
  if (body.ends_with(kFunctionClose)) body.remove_suffix(kFunctionClose.size());
  return parameters_call(body, "<parameter=");
}

// `"NAME">`, then parameters whose attribute `string` says whether the value is text or JSON.
std::optional<ToolCall> dsml_call(std::string_view body) {
  constexpr std::string_view kOpen = "<｜DSML｜parameter name=";
  constexpr std::string_view kClose = "</｜DSML｜parameter>";
  const std::optional<std::string> name = take_attribute(body);
  if (!name) return std::nullopt;
  OrderedJson arguments = OrderedJson::object();
  for (body = trimmed(body, kBlanks); !body.empty(); body = trimmed(body, kBlanks)) {
    if (!body.starts_with(kOpen)) return std::nullopt;
    body.remove_prefix(kOpen.size());
    const std::optional<std::string> attributes = take_attribute(body);
    const std::size_t close = body.find(kClose);
    if (!attributes || close == std::string_view::npos) return std::nullopt;
    const std::string_view key =
        std::string_view(*attributes).substr(0, attributes->find('"'));  // NAME" string="true
    const std::string_view text = body.substr(0, close);
    const bool is_text = attributes->find("string=\"false") == std::string::npos;
    const std::optional<OrderedJson> value = is_text ? std::nullopt : parsed(text);
    if (key.empty() || (!is_text && !value)) return std::nullopt;
    arguments[std::string(key)] = is_text ? OrderedJson(std::string(text)) : *value;
    body.remove_prefix(close + kClose.size());
  }
  return call_of(*name, arguments);
}

// Removes the text between two tags from the front of `body`.
std::optional<std::string> take_element(std::string_view& body,
                                        std::string_view open,
                                        std::string_view close) {
  body = trimmed(body, kBlanks);
  const std::size_t end = body.find(close);
  if (!body.starts_with(open) || end == std::string_view::npos) return std::nullopt;
  std::string text(body.substr(open.size(), end - open.size()));
  body.remove_prefix(end + close.size());
  return text;
}

// GLM: the name, then keys and values. All values are text here.
std::optional<ToolCall> glm_call(std::string_view body) {
  const std::size_t first = body.find("<arg_key>");
  if (first == std::string_view::npos) return std::nullopt;
  const std::string name(trimmed(body.substr(0, first), kBlanks));
  body.remove_prefix(first);
  OrderedJson arguments = OrderedJson::object();
  while (!trimmed(body, kBlanks).empty()) {
    const std::optional<std::string> key = take_element(body, "<arg_key>", "</arg_key>");
    if (!key || key->empty()) return std::nullopt;
    const std::optional<std::string> value = take_element(body, "<arg_value>", "</arg_value>");
    if (!value) return std::nullopt;
    arguments[*key] = *value;
  }
  return call_of(name, arguments);
}

const OrderedJson* member(const OrderedJson* object, const std::string& key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &*found;
}

// The declaration of a tool; null when the request has none of this name.
const OrderedJson* find_tool(const OrderedJson& tools, std::string_view tool_name) {
  if (!tools.is_array()) return nullptr;
  for (const OrderedJson& tool : tools) {
    const OrderedJson* function = member(&tool, "function");
    if (function == nullptr) function = &tool;
    const OrderedJson* name = member(function, "name");
    if (name != nullptr && *name == tool_name) return function;
  }
  return nullptr;
}

// Whether the schema of a tool's parameter asks for text.
bool is_text_parameter(const OrderedJson& tools,
                       const std::string& tool_name,
                       const std::string& parameter) {
  const OrderedJson* schema =
      member(member(find_tool(tools, tool_name), "parameters"), "properties");
  const OrderedJson* type = member(member(schema, parameter), "type");
  return type != nullptr && *type == "string";
}

// Values that the tool does not declare as strings are JSON where they can be parsed as JSON.
void type_arguments(const OrderedJson& tools, ToolCall& call) {
  std::optional<OrderedJson> arguments = parsed(call.arguments);
  GRAFT_CHECK(arguments && arguments->is_object(), "arguments of a call are not an object");
  for (const auto& item : arguments->items()) {
    if (is_text_parameter(tools, call.name, item.key())) continue;
    if (std::optional<OrderedJson> value = parsed(item.value().get<std::string>()))
      item.value() = *std::move(value);
  }
  call.arguments = ordered_text(*arguments);
}

// "functions.NAME:INDEX", then the arguments. The model refers to its calls by this id.
std::optional<ToolCall> kimi_call(std::string_view body) {
  constexpr std::string_view kPrefix = "functions.";
  const std::size_t separator = body.find(kKimiSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  const std::string_view id = trimmed(body.substr(0, separator), kBlanks);
  std::string_view name = id.substr(0, id.rfind(':'));
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const std::optional<OrderedJson> arguments =
      parsed(trimmed(body.substr(separator + kKimiSeparator.size()), kBlanks));
  std::optional<ToolCall> call = arguments ? call_of(std::string(name), *arguments) : std::nullopt;
  if (call) call->id = id;
  return call;
}

std::optional<ToolCall> harmony_call(std::string_view body) {
  const std::size_t separator = body.find(kHarmonySeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  const std::optional<OrderedJson> arguments =
      parsed(trimmed(body.substr(separator + kHarmonySeparator.size()), kBlanks));
  return arguments ? call_of(std::string(body.substr(0, separator)), *arguments) : std::nullopt;
}

std::vector<ToolCall> list_of(std::optional<ToolCall> call) {
  std::vector<ToolCall> calls;
  if (call) calls.push_back(*std::move(call));
  return calls;
}

std::vector<ToolCall> typed(std::optional<ToolCall> call, const OrderedJson& tools) {
  if (call) type_arguments(tools, *call);
  return list_of(std::move(call));
}

}  // namespace

std::vector<ToolCall> parse_hermes(std::string_view body, const OrderedJson& tools) {
  if (body.starts_with('{')) return list_of(hermes_call(body));
  if (body.starts_with(kFunctionOpen)) return typed(function_call(body), tools);
  // GLM writes a call without arguments as its name alone.
  if (find_tool(tools, body) != nullptr)
    return list_of(call_of(std::string(body), OrderedJson::object()));
  return typed(glm_call(body), tools);
}

std::vector<ToolCall> parse_deepseek(std::string_view body, const OrderedJson& /*tools*/) {
  return list_of(deepseek_call(body));
}

std::vector<ToolCall> parse_minimax(std::string_view body, const OrderedJson& tools) {
  return typed(parameters_call(body, "<parameter name="), tools);
}

std::vector<ToolCall> parse_kimi(std::string_view body, const OrderedJson& /*tools*/) {
  return list_of(kimi_call(body));
}

std::vector<ToolCall> parse_dsml(std::string_view body, const OrderedJson& /*tools*/) {
  return list_of(dsml_call(body));
}

std::vector<ToolCall> parse_harmony(std::string_view body, const OrderedJson& /*tools*/) {
  return list_of(harmony_call(body));
}

std::vector<ToolCall> parse_llama(std::string_view body, const OrderedJson& /*tools*/) {
  std::vector<ToolCall> calls;
  const auto add = [&](std::optional<ToolCall> call) {
    if (call) calls.push_back(*std::move(call));
    return !calls.empty();
  };
  if (body.starts_with('{')) {
    // Several objects are separated by semicolons.
    if (add(hermes_call(body))) return calls;
    for (std::size_t end = body.find("};"); !body.empty(); end = body.find("};")) {
      const std::size_t size = end == std::string_view::npos ? body.size() : end + 1;
      std::optional<ToolCall> call = hermes_call(trimmed(body.substr(0, size), kBlanks));
      if (!call) return {};
      calls.push_back(*std::move(call));
      body = trimmed(body.substr(std::min(size + 1, body.size())), kBlanks);
    }
    return calls;
  }
  for (const PythonCall& call : parse_python_calls(body))
    if (!add(call_of(call.name, call.arguments))) return {};
  return calls;
}

}  // namespace graft::server
