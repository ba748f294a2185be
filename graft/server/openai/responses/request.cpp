#include "graft/server/openai/responses/request.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/server/fields.h"
#include "graft/server/openai/chat_request.h"
#include "graft/server/openai/known_fields.h"
#include "graft/server/openai/responses/items.h"

namespace graft::server::openai::responses {
namespace {

void reject_features(const Fields& fields) {
  // max_tool_calls counts calls of hosted tools, which the model never chooses.
  check_known(fields, {"model",
                       "lora",
                       "input",
                       "instructions",
                       "previous_response_id",
                       "max_output_tokens",
                       "stream",
                       "stream_options",
                       "store",
                       "tools",
                       "tool_choice",
                       "parallel_tool_calls",
                       "max_tool_calls",
                       "reasoning",
                       "text",
                       "include",
                       "truncation",
                       "top_logprobs",
                       "priority",
                       "cache_salt",
                       "background",
                       "conversation",
                       "prompt",
                       "context_management",
                       "moderation",
                       "client_metadata",
                       "prompt_logprobs"});
  fields.reject("conversation", "conversations are not supported; use previous_response_id");
  fields.reject("prompt", "stored prompts are not supported; use instructions and input");
  fields.reject("moderation", "is not supported");
  fields.reject("prompt_logprobs", "is not supported; use /v1/chat/completions");
  const OrderedJson* management = fields.find("context_management");
  if (management != nullptr && !management->empty())
    fields.fail_at("context_management", "is not supported");
  if (fields.boolean("background").value_or(false))
    fields.fail_at("background", "is not supported; use stream");
  if (fields.integer("n", 1).value_or(1) != 1) fields.fail_at("n", "must be 1");
}

void read_response_tools(const Fields& fields, ResponsesRequest& request) {
  auto choice = read_tool_choice(fields);
  OrderedJson tools = read_function_tools(fields);
  request.single_call = !fields.boolean("parallel_tool_calls").value_or(true);
  if (!choice) return;
  check_tool_choice(*choice, tools);
  if (tools.is_null()) return;
  request.conversation.tools = std::move(tools);
  request.conversation.forces_call = choice->is_forced;
  request.tool_choice = *std::move(choice);
  request.parse_tool_calls = true;
}

void read_reasoning(const Fields& fields, ResponsesRequest& request) {
  const auto reasoning = fields.object("reasoning");
  if (!reasoning) return;
  set_effort(request.conversation, reasoning->string("effort").value_or(""));
  const char* name = reasoning->has("summary") ? "summary" : "generate_summary";
  const auto summary = reasoning->string(name);
  if (!summary) return;
  static constexpr std::array<std::string_view, 4> kSummaries = {"auto", "concise", "detailed",
                                                                 "none"};
  if (std::ranges::find(kSummaries, *summary) == kSummaries.end())
    reasoning->fail_at(name, str("'", *summary, "' is not auto, concise, detailed or none"));
  request.wants_summary = *summary != "none";
}

void read_text(const Fields& fields, ResponsesRequest& request) {
  const auto text = fields.object("text");
  if (!text) return;
  if (const auto format = text->object("format"))
    request.sampling.set_response_format(format->json(), "text.format");
  set_verbosity(*text, request.conversation);
}

void read_include(const Fields& fields, ResponsesRequest& request) {
  const std::vector<std::string> include = fields.strings("include");
  const auto has = [&](const char* name) {
    return std::ranges::find(include, name) != include.end();
  };
  request.wants_encrypted = has("reasoning.encrypted_content");
  const auto top = fields.integer("top_logprobs", 0, kMaxAlternatives);
  request.wants_logprobs = has("message.output_text.logprobs") || top.value_or(0) > 0;
  if (request.wants_logprobs) request.sampling.params.logprobs = top.value_or(0);
}

void read_truncation(const Fields& fields, ResponsesRequest& request) {
  const std::string truncation = fields.string("truncation").value_or("disabled");
  if (truncation != "auto" && truncation != "disabled")
    fields.fail_at("truncation", str("'", truncation, "' is not 'auto' or 'disabled'"));
  request.truncates = truncation == "auto";
}

// With the API's defaults for absent fields. Clients check them with a schema.
OrderedJson echo_of(const Fields& fields, const ResponsesRequest& request) {
  OrderedJson echo = OrderedJson::object();
  const auto add = [&](const char* name, const OrderedJson& absent) {
    const OrderedJson* value = fields.find(name);
    echo[name] = value == nullptr ? absent : *value;
  };
  add("instructions", nullptr);
  add("max_output_tokens", nullptr);
  add("metadata", OrderedJson::object());
  add("parallel_tool_calls", true);
  add("previous_response_id", nullptr);
  add("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  echo["service_tier"] = "default";
  echo["store"] = request.is_stored;
  add("temperature", 1.0);
  add("text", {{"format", {{"type", "text"}}}});
  add("tool_choice", "auto");
  add("tools", OrderedJson::array());
  add("top_logprobs", 0);
  add("top_p", 1.0);
  add("truncation", "disabled");
  add("user", nullptr);
  return echo;
}

}  // namespace

ResponsesRequest read_responses_request(const OrderedJson& body) {
  const Fields fields(body);
  reject_features(fields);
  ResponsesRequest request;
  request.model = read_model(fields);
  request.items = read_items(fields);
  request.instructions = fields.string("instructions").value_or("");
  request.previous_response_id = fields.string("previous_response_id").value_or("");
  if (request.items.empty() && request.instructions.empty() && request.previous_response_id.empty())
    fields.fail_at("input", "is missing");
  request.sampling = read_sampling(fields);
  request.sampling.params.max_tokens = fields.integer("max_output_tokens", 1);
  request.is_stream = fields.boolean("stream").value_or(false);
  request.is_stored = fields.boolean("store").value_or(true);
  request.priority = fields.integer("priority").value_or(0);
  request.cache_salt = fields.string("cache_salt").value_or("");
  fields.object("metadata");
  read_response_tools(fields, request);
  request.namespaces = read_namespaces(fields);
  read_reasoning(fields, request);
  read_text(fields, request);
  read_include(fields, request);
  read_truncation(fields, request);
  request.echo = echo_of(fields, request);
  return request;
}

}  // namespace graft::server::openai::responses
