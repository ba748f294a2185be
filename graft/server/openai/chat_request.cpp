#include "graft/server/openai/chat_request.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/server/fields.h"
#include "graft/server/generation/tool_calls.h"
#include "graft/server/openai/known_fields.h"

namespace graft::server::openai {
namespace {

void check_names(const Fields& fields) {
  check_known(fields, {"model",
                       "lora",
                       "messages",
                       "max_completion_tokens",
                       "max_tokens",
                       "stream",
                       "stream_options",
                       "logprobs",
                       "top_logprobs",
                       "prompt_logprobs",
                       "tools",
                       "tool_choice",
                       "parallel_tool_calls",
                       "reasoning",
                       "reasoning_effort",
                       "reasoning_format",
                       "include_reasoning",
                       "separate_reasoning",
                       "thinking",
                       "enable_thinking",
                       "verbosity",
                       "chat_template",
                       "chat_template_kwargs",
                       "documents",
                       "parse_special",
                       "add_special_tokens",
                       "add_generation_prompt",
                       "continue_final_message",
                       "priority",
                       "cache_salt",
                       "store",
                       "audio",
                       "modalities",
                       "web_search_options",
                       "functions",
                       "function_call"});
}

void reject_features(const Fields& fields) {
  fields.reject("audio", "audio is not supported");
  for (const std::string& modality : fields.strings("modalities")) {
    if (modality != "text") fields.fail_at("modalities", str("'", modality, "' is not supported"));
  }
  fields.reject("web_search_options", "web search is not supported");
  fields.reject_unless_empty("functions", "is deprecated, use tools");
  fields.reject_unless_empty("function_call", "is deprecated, use tool_choice");
  for (const char* name : {"include_reasoning", "separate_reasoning"}) {
    if (!fields.boolean(name).value_or(true))
      fields.fail_at(name, "is always true: leave the reasoning out where you read it");
  }
  const std::string format = fields.string("reasoning_format").value_or("auto");
  if (format != "auto" && format != "deepseek") {
    fields.fail_at("reasoning_format",
                   str("'", format, "' is not supported, only 'auto' and 'deepseek'"));
  }
  if (fields.boolean("store").value_or(false))
    fields.fail_at("store", "is not supported: /v1/responses stores responses");
  if (fields.boolean("add_special_tokens").value_or(false))
    fields.fail_at("add_special_tokens", "is always false: the chat template writes them");
  fields.reject_unless_empty("documents", "is not supported: put them into a message");
  fields.reject_unless_empty("chat_template",
                             "is not allowed per request, see graft serve --chat-template");
}

// Valid arguments keep their text: some templates print it.
void replace_malformed_arguments(OrderedJson& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (OrderedJson& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    OrderedJson& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    OrderedJson parsed = call_arguments(arguments->get<std::string>());
    if (parsed.contains("unparsed")) *arguments = std::move(parsed);
  }
}

// Renames what templates do not know: role developer to system, reasoning to reasoning_content.
OrderedJson read_messages(const Fields& fields) {
  const OrderedJson* given = fields.find("messages");
  if (given == nullptr) fields.fail_at("messages", "is missing");
  OrderedJson messages = *given;
  if (!messages.is_array()) return messages;  // api::ChatFormat rejects it later
  for (OrderedJson& message : messages) {
    if (!message.is_object()) continue;
    const auto role = message.find("role");
    if (role != message.end() && *role == "developer") *role = "system";
    const auto reasoning = message.find("reasoning");
    if (reasoning != message.end() && reasoning->is_string() &&
        !message.contains("reasoning_content"))
      message["reasoning_content"] = *reasoning;
    replace_malformed_arguments(message);
  }
  return messages;
}

void read_tools(const Fields& fields, ChatRequest& request) {
  auto choice = read_tool_choice(fields);
  request.single_call = !fields.boolean("parallel_tool_calls").value_or(true);
  const OrderedJson* tools = fields.find("tools");
  if (!choice) return;
  check_tool_choice(*choice, tools == nullptr ? OrderedJson(nullptr) : *tools);
  if (tools == nullptr || tools->empty()) return;
  request.conversation.tools = *tools;
  request.conversation.forces_call = choice->is_forced;
  request.tool_choice = *std::move(choice);
  request.parse_tool_calls = true;
}

void read_thinking(const Fields& fields, ChatRequest& request) {
  std::string effort = fields.string("reasoning_effort").value_or("");
  if (const auto reasoning = fields.object("reasoning")) {
    reasoning->reject_unknown({"effort"});
    if (effort.empty()) effort = reasoning->string("effort").value_or("");
  }
  // Copied as a whole: inserting into an ordered JSON object is linear in its size.
  const auto variables = fields.object("chat_template_kwargs");
  if (variables) request.conversation.extra = variables->json();
  set_effort(request.conversation, effort);
  set_verbosity(fields, request.conversation);
  for (const char* name : {"enable_thinking", "thinking"}) {
    const auto flag = variables ? variables->boolean(name) : std::nullopt;
    if (flag) request.conversation.thinking = *flag ? api::Thinking::On : api::Thinking::Off;
  }
  if (const auto thinking = fields.object("thinking")) {  // DeepSeek, GLM, Kimi
    thinking->reject_unknown({"type"});
    const std::string type = thinking->required_string("type");
    if (type != "enabled" && type != "disabled")
      thinking->fail_at("type", str("'", type, "' is not 'enabled' or 'disabled'"));
    request.conversation.thinking = type == "enabled" ? api::Thinking::On : api::Thinking::Off;
  }
  if (const auto flag = fields.boolean("enable_thinking"))
    request.conversation.thinking = *flag ? api::Thinking::On : api::Thinking::Off;
}

void read_logprobs(const Fields& fields, ChatRequest& request) {
  request.wants_logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxAlternatives);
  if (top && *top > 0 && !request.wants_logprobs)
    fields.fail_at("top_logprobs", "requires logprobs: true");
  if (request.wants_logprobs) request.sampling.params.logprobs = top.value_or(0);
  request.sampling.params.prompt_logprobs = read_prompt_logprobs(fields, request.is_stream);
}

bool may_be_continued(const OrderedJson& messages) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object()) return false;
  const OrderedJson& last = messages.back();
  const auto role = last.find("role");
  const auto calls = last.find("tool_calls");
  return role != last.end() && *role == "assistant" && (calls == last.end() || calls->empty());
}

// As in llama.cpp, the output continues a last message of the assistant; vLLM's fields decide where
// they are set.
void read_continuation(const Fields& fields, api::Conversation& conversation) {
  const auto wants_turn = fields.boolean("add_generation_prompt");
  const auto wants_continued = fields.boolean("continue_final_message");
  if (wants_turn.value_or(false) && wants_continued.value_or(false))
    fields.fail_at("continue_final_message", "excludes add_generation_prompt: true");
  conversation.add_generation_prompt = wants_turn.value_or(true);
  conversation.continue_final_message =
      wants_continued.value_or(!wants_turn && may_be_continued(conversation.messages));
}

}  // namespace

void set_effort(api::Conversation& conversation, const std::string& effort) {
  if (effort.empty()) return;
  const bool is_off = effort == "none" || effort == "minimal";
  conversation.thinking = is_off ? api::Thinking::Off : api::Thinking::On;
  if (!conversation.extra.contains("reasoning_effort"))
    conversation.extra["reasoning_effort"] = effort;
}

void set_verbosity(const Fields& fields, api::Conversation& conversation) {
  const auto verbosity = fields.string("verbosity");
  if (!verbosity) return;
  if (*verbosity != "low" && *verbosity != "medium" && *verbosity != "high")
    fields.fail_at("verbosity", str("'", *verbosity, "' is not low, medium or high"));
  if (!conversation.extra.contains("verbosity")) conversation.extra["verbosity"] = *verbosity;
}

bool read_include_usage(const Fields& fields, bool is_stream) {
  const auto options = fields.object("stream_options");
  if (options) {
    options->reject_unknown({"include_usage", "include_obfuscation", "continuous_usage_stats"});
    if (options->boolean("continuous_usage_stats").value_or(false))
      options->fail_at("continuous_usage_stats", "is not supported");
  }
  if (options && !is_stream) fields.fail_at("stream_options", "requires stream: true");
  return options && options->boolean("include_usage").value_or(false);
}

ChatRequest read_chat_request(const OrderedJson& body) {
  const Fields fields(body);
  check_names(fields);
  reject_features(fields);
  ChatRequest request;
  request.model = read_model(fields);
  request.conversation.messages = read_messages(fields);
  read_continuation(fields, request.conversation);
  request.conversation.parse_special = fields.boolean("parse_special").value_or(false);
  request.sampling = read_sampling(fields);
  auto max_tokens = fields.integer("max_completion_tokens", 1);
  if (!max_tokens) max_tokens = fields.integer("max_tokens", 1);
  request.sampling.params.max_tokens = max_tokens;
  request.is_stream = fields.boolean("stream").value_or(false);
  request.include_usage = read_include_usage(fields, request.is_stream);
  request.priority = fields.integer("priority").value_or(0);
  request.cache_salt = fields.string("cache_salt").value_or("");
  read_tools(fields, request);
  read_thinking(fields, request);
  read_logprobs(fields, request);
  return request;
}

}  // namespace graft::server::openai
