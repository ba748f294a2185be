#include "graft/server/tools/tool_choice.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/chat/call_grammar.h"
#include "graft/chat/harmony.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/call_parameters.h"

namespace graft::server {
namespace {

// Of message content, which a forced call does not have.
constexpr std::array<std::string_view, 4> kContentFormats = {
    "response_format", "text.format", "output_config.format", "output_format"};

// {"type": "function", "function": {"name": "f"}}, or the name beside the type.
std::string function_name(const Fields& given) {
  const std::string type = given.string("type").value_or("function");
  if (type != "function") given.fail_at("type", str("'", type, "' is not supported"));
  const auto function = given.object("function");
  return function ? function->required_string("name") : given.required_string("name");
}

ToolChoice allowed_tools(const Fields& given) {
  const auto nested = given.object("allowed_tools");
  const Fields& owner = nested ? *nested : given;
  const std::string mode = owner.string("mode").value_or("auto");
  if (mode != "auto" && mode != "required")
    owner.fail_at("mode", str("'", mode, "' is not 'auto' or 'required'"));
  ToolChoice choice = {.is_forced = mode == "required"};
  owner.for_each_object("tools",
                        [&](const Fields& tool) { choice.names.push_back(function_name(tool)); });
  if (choice.names.empty()) owner.fail_at("tools", "expected a tool");
  return choice;
}

chat::CallGrammar::Thinking thinking_of(const api::ChatPrompt& prompt) {
  using Thinking = chat::CallGrammar::Thinking;
  if (prompt.in_thinking) return Thinking::Open;
  return prompt.may_think ? Thinking::Optional : Thinking::None;
}

// Whether the prompt ends inside a message that cannot become a call.
bool is_inside_message(const api::ChatPrompt& prompt) {
  return prompt.reasoning.is_harmony && !prompt.in_thinking &&
         !prompt.text.ends_with("<|start|>assistant");
}

}  // namespace

std::optional<ToolChoice> read_tool_choice(const Fields& fields) {
  const OrderedJson* given = fields.find("tool_choice");
  if (given == nullptr) return ToolChoice{};
  if (given->is_string()) {
    const auto word = given->get<std::string>();
    if (word == "none") return std::nullopt;
    if (word == "auto") return ToolChoice{};
    if (word == "required" || word == "any") return ToolChoice{.is_forced = true};
    fields.fail_at("tool_choice",
                   str("'", word, "' is not 'auto', 'none', 'required' or a function"));
  }
  const auto object = fields.object("tool_choice");
  if (object->string("type").value_or("") == "allowed_tools") return allowed_tools(*object);
  return ToolChoice{.is_forced = true, .names = {function_name(*object)}};
}

void check_tool_choice(const ToolChoice& choice,
                       const OrderedJson& tools,
                       const std::string& field) {
  for (const std::string& name : choice.names) {
    if (find_tool(tools, name) == nullptr)
      throw ApiError(400, str(field, ": the request has no tool '", name, "'"), field);
  }
  if (choice.is_forced && (!tools.is_array() || tools.empty()))
    throw ApiError(400, str(field, ": a forced call requires tools"), field);
}

void constrain_output(const api::ChatPrompt& prompt,
                      const CallOptions& calls,
                      GenerationInput& input) {
  const ToolChoice& choice = calls.choice;
  auto& output = input.params.structured_output;
  const bool is_limited = !choice.names.empty() || chat::has_strict_tool(calls.tools);
  const bool has_calls = calls.tools.is_array() && (choice.is_forced || is_limited);
  if (!has_calls || (!choice.is_forced && (output || is_inside_message(prompt)))) {
    api::constrain_after_reasoning(prompt, input.params);
    return;
  }
  if (output &&
      std::ranges::find(kContentFormats, input.structured_field) == kContentFormats.end()) {
    throw ApiError(400, str("tool_choice: a forced call excludes ", input.structured_field),
                   "tool_choice");
  }
  if (is_inside_message(prompt)) {
    throw ApiError(400, "tool_choice: a message that is continued cannot become a call",
                   "tool_choice");
  }
  try {
    output = {.kind = StructuredOutput::Kind::Grammar,
              .text = chat::call_grammar({.format = prompt.tool_calls,
                                          .form = prompt.call_form,
                                          .reasoning = prompt.reasoning,
                                          .thinking = thinking_of(prompt),
                                          .is_forced = choice.is_forced,
                                          .is_single = calls.is_single,
                                          .names = choice.names},
                                         calls.tools)};
  } catch (const Error& error) {
    throw ApiError(400, str("tools: ", error.what()), "tools");
  }
  input.structured_field = "tools";
}

}  // namespace graft::server
