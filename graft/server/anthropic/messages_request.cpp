#include "graft/server/anthropic/messages_request.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/anthropic/conversation.h"
#include "graft/server/fields.h"

namespace graft::server::anthropic {
namespace {

// Clients send fields of new features by name; one that is not known here must not be ignored.
void reject_unknown(const Fields& fields) {
  fields.reject_unknown({"model",
                         "lora",
                         "messages",
                         "max_tokens",
                         "metadata",
                         "service_tier",
                         "system",
                         "temperature",
                         "stop_sequences",
                         "stream",
                         "thinking",
                         "tool_choice",
                         "tools",
                         "top_k",
                         "top_p",
                         "container",
                         "mcp_servers",
                         "cache_control",
                         "context_management",
                         "output_config",
                         "output_format",
                         "inference_geo",
                         "betas"});
}

// Fields whose features this server does not have. Clients send empty lists for none.
void reject_server_features(const Fields& fields) {
  fields.reject("container", "containers are not supported");
  const OrderedJson* servers = fields.find("mcp_servers");
  if (servers != nullptr && !servers->empty())
    fields.fail_at("mcp_servers", "MCP servers are not supported, only tools");
  const auto management = fields.object("context_management");
  if (!management || !management->has("edits")) return;
  management->for_each_object("edits", [](const Fields& edit) {
    // Templates keep only the reasoning of the last turn anyway.
    const std::string type = edit.required_string("type");
    if (!type.starts_with("clear_thinking_"))
      edit.fail_at("type", str("'", type, "' is not supported, only 'clear_thinking_20251015'"));
  });
}

// nullopt: no tool may be called.
std::optional<ToolChoice> choice_of(const Fields& given) {
  const std::string type = given.required_string("type");
  if (type == "none") return std::nullopt;
  if (type == "auto") return ToolChoice{};
  if (type == "any") return ToolChoice{.is_forced = true};
  if (type == "tool")
    return ToolChoice{.is_forced = true, .names = {given.required_string("name")}};
  given.fail_at("type", str("'", type, "' is not 'auto', 'any', 'tool' or 'none'"));
}

void read_call_options(const Fields& fields, MessagesRequest& request) {
  std::optional<ToolChoice> choice = ToolChoice{};
  if (const auto given = fields.object("tool_choice")) {
    choice = choice_of(*given);
    request.single_call = given->boolean("disable_parallel_tool_use").value_or(false);
  }
  OrderedJson tools = read_tools(fields);
  if (!choice) return;
  check_tool_choice(*choice, tools);
  if (tools.is_null()) return;
  request.conversation.tools = std::move(tools);
  request.conversation.forces_call = choice->is_forced;
  request.tool_choice = *std::move(choice);
  request.parse_tool_calls = true;
}

void read_budget(const Fields& thinking, MessagesRequest& request) {
  const auto budget = thinking.integer("budget_tokens", 1);
  if (!budget) thinking.fail_at("budget_tokens", "is missing");
  // A wish, as with Anthropic: for templates that tell the model.
  request.conversation.extra["thinking_budget"] = *budget;
}

// Without the field the model decides: Anthropic's default, off, would cut off models that always
// reason, and GPT-OSS calls tools only from its reasoning.
void read_thinking(const Fields& fields, MessagesRequest& request) {
  const auto thinking = fields.object("thinking");
  if (!thinking) return;
  const std::string type = thinking->required_string("type");
  if (type == "enabled") {
    // Clients such as Claude Code enable it for every model: one whose template has no such
    // variable must not be forced to reason, as Thinking::On would.
    request.conversation.extra["enable_thinking"] = true;
    request.conversation.extra["thinking"] = true;
    read_budget(*thinking, request);
  } else if (type == "disabled") {
    request.conversation.thinking = api::Thinking::Off;
  } else if (type != "adaptive") {
    thinking->fail_at("type",
                      str("'", type, "' is not supported, only 'enabled', 'disabled', 'adaptive'"));
  }
  const std::string display = thinking->string("display").value_or("summarized");
  if (display != "summarized" && display != "omitted")
    thinking->fail_at("display", str("'", display, "' is not 'summarized' or 'omitted'"));
  request.shows_thinking = display == "summarized";
}

// output_format is the name of output_config.format before it left beta.
void read_output_config(const Fields& fields, MessagesRequest& request) {
  if (const auto format = fields.object("output_format"))
    request.sampling.set_response_format(format->json(), "output_format");
  const auto config = fields.object("output_config");
  if (!config) return;
  if (const auto format = config->object("format"))
    request.sampling.set_response_format(format->json(), "output_config.format");
  if (const auto effort = config->string("effort"))
    request.conversation.extra["reasoning_effort"] = *effort;
}

bool ends_with_assistant(const OrderedJson& messages) {
  if (messages.empty()) return false;
  const OrderedJson& last = messages.back();
  return last["role"] == "assistant" && !last.contains("tool_calls");
}

void read_sampling(const Fields& fields, MessagesRequest& request) {
  openai::Sampling& sampling = request.sampling;
  api::SamplingParams& params = sampling.params;
  if (!fields.has("max_tokens")) fields.fail_at("max_tokens", "is missing");
  params.max_tokens = fields.integer("max_tokens", 1);
  // Anthropic's maximum is 1; models of others are used with more.
  if (const auto temperature = fields.number("temperature", 0, 2)) {
    params.temperature = *temperature;
    sampling.default_temperature = false;
  }
  if (const auto top_p = fields.number("top_p", 0, 1)) {
    params.top_p = *top_p;
    sampling.default_top_p = false;
  }
  if (const auto top_k = fields.integer("top_k", 0)) {
    params.top_k = *top_k;
    sampling.default_top_k = false;
  }
  params.stop = fields.strings("stop_sequences", kMaxStops);
}

}  // namespace

MessagesRequest read_count_request(const OrderedJson& body) {
  const Fields fields(body);
  reject_unknown(fields);
  reject_server_features(fields);
  MessagesRequest request;
  request.model = read_model(fields);
  request.conversation.messages = read_conversation(fields);
  request.conversation.continue_final_message = ends_with_assistant(request.conversation.messages);
  read_call_options(fields, request);
  read_thinking(fields, request);
  read_output_config(fields, request);
  return request;
}

MessagesRequest read_messages_request(const OrderedJson& body) {
  const Fields fields(body);
  MessagesRequest request = read_count_request(body);
  read_sampling(fields, request);
  request.is_stream = fields.boolean("stream").value_or(false);
  return request;
}

}  // namespace graft::server::anthropic
