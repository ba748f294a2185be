#include "graft/server/generation/call_parameters.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/grammar/json_schema/value_types.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

using StepKind = ParameterStep::Kind;

constexpr std::string_view kParameterBlanks = " \t\r\n";

std::string_view past_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kParameterBlanks), text.size()));
  return text;
}

// A line break on each side of a value is not part of it.
std::string_view without_line_breaks(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

// The end of the call: `call_end`, blanks, the closing marker.
ParameterStep call_end(std::string_view text,
                       std::string_view whole,
                       const ParameterSyntax& syntax,
                       std::string_view call_close,
                       bool at_end) {
  const std::string_view start = text;
  if (text.starts_with(syntax.call_end)) text = past_blanks(text.substr(syntax.call_end.size()));
  if (text.starts_with(call_close))
    return {.kind = StepKind::End, .size = whole.size() - text.size() + call_close.size()};
  const bool may_end = call_close.starts_with(text) || syntax.call_end.starts_with(start);
  if (!may_end) return {.kind = StepKind::Malformed};
  return {.kind = at_end ? StepKind::End : StepKind::Incomplete, .size = whole.size()};
}

// `NAME" string="true`: the name and the type.
void read_type_attribute(ParameterStep& parameter) {
  const std::size_t quote = parameter.key.find('"');
  if (quote == std::string::npos) return;
  parameter.is_json = parameter.key.find("string=\"false", quote) != std::string::npos;
  parameter.is_text = !parameter.is_json;
  parameter.key.resize(quote);
}

const OrderedJson* member(const OrderedJson* object, const std::string& key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &*found;
}

std::optional<OrderedJson> parsed_value(std::string_view text) {
  try {
    return parse_ordered_json(text, "value");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Whether text that can be parsed as `value` is meant as JSON.
bool is_json_value(const OrderedJson& value, const std::vector<std::string>& types) {
  const auto has = [&](const char* type) { return std::ranges::find(types, type) != types.end(); };
  // A text in quotes is a text with quotes where the tool asks for a text.
  if (!has("string")) return true;
  return !value.is_string() && std::ranges::any_of(types, [&](const std::string& type) {
    return grammar::is_of_type(value, type);
  });
}

}  // namespace

ParameterStep next_parameter(std::string_view text,
                             const ParameterSyntax& syntax,
                             std::string_view call_close,
                             bool at_end) {
  std::string_view rest = past_blanks(text);
  ParameterStep incomplete = {.kind = at_end ? StepKind::Malformed : StepKind::Incomplete};
  if (rest.empty() && !at_end) return incomplete;
  if (!rest.starts_with(syntax.open)) {
    if (!rest.empty() && syntax.open.starts_with(rest)) return incomplete;
    return call_end(rest, text, syntax, call_close, at_end);
  }
  rest.remove_prefix(syntax.open.size());
  const std::size_t key_end = rest.find(syntax.key_end);
  if (key_end == std::string_view::npos) return incomplete;
  ParameterStep step = {.kind = StepKind::Parameter};
  step.key = std::string(trimmed(rest.substr(0, key_end), " \t\r\n\"'"));
  if (syntax.has_type_attribute) read_type_attribute(step);
  rest.remove_prefix(key_end + syntax.key_end.size());
  if (!syntax.value_open.empty()) {
    rest = past_blanks(rest);
    if (syntax.value_open.starts_with(rest)) return incomplete;
    if (!rest.starts_with(syntax.value_open)) return {.kind = StepKind::Malformed};
    rest.remove_prefix(syntax.value_open.size());
  }
  const std::size_t close = rest.find(syntax.close);
  // A parameter without its end: the call ends before it.
  if (rest.substr(0, close).find(call_close) != std::string_view::npos)
    return {.kind = StepKind::Malformed};
  if (close == std::string_view::npos) return incomplete;
  if (step.key.empty()) return {.kind = StepKind::Malformed};
  step.text = std::string(syntax.has_type_attribute ? rest.substr(0, close)
                                                    : without_line_breaks(rest.substr(0, close)));
  step.size = text.size() - rest.size() + close + syntax.close.size();
  return step;
}

std::string parameter_value(const OrderedJson& tools,
                            std::string_view tool_name,
                            const ParameterStep& parameter) {
  std::string quoted = ordered_text(OrderedJson(parameter.text));
  if (parameter.is_text) return quoted;
  const std::optional<OrderedJson> value = parsed_value(parameter.text);
  if (parameter.is_json) return value ? ordered_text(*value) : std::string();
  const OrderedJson* parameters = member(find_tool(tools, tool_name), "parameters");
  const OrderedJson* schema = member(member(parameters, "properties"), parameter.key);
  std::vector<std::string> types;
  if (schema != nullptr) types = grammar::value_types(*parameters, *schema);
  // Python's spelling of a boolean.
  const bool is_python = parameter.text == "True" || parameter.text == "False";
  if (is_python && types == std::vector<std::string>{"boolean"}) return lower_case(parameter.text);
  return value && is_json_value(*value, types) ? ordered_text(*value) : quoted;
}

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

}  // namespace graft::server
