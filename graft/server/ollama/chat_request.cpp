#include "graft/server/ollama/chat_request.h"

#include <initializer_list>
#include <string_view>

#include "graft/base/error.h"
#include "graft/server/message_parts.h"

namespace graft::server::ollama {
namespace {

// Fields of /api/chat and of /api/generate; `own` are those of one of them.
void reject_unknown(const Fields& fields, std::initializer_list<std::string_view> own) {
  fields.reject_unknown(
      own, {"model", "lora", "options", "stream", "keep_alive", "think", "format", "logprobs",
            "top_logprobs", "images", "template", "truncate", "shift"});
}

Request read_common(const Fields& fields) {
  reject_unsupported(fields);
  Request request;
  fields.required_string("model");
  request.model = read_model(fields);
  request.options = read_options(fields);
  if (const auto options = fields.object("options")) request.options_json = options->json();
  request.is_stream = fields.boolean("stream").value_or(true);
  request.keep_alive_seconds = read_keep_alive(fields);
  request.conversation.thinking = read_thinking(fields, request.conversation.extra);
  return request;
}

// The content of a message with images, base64 each, before its text.
OrderedJson content_of(const Fields& message, const std::string& text) {
  MessageParts parts;
  for (const std::string& image : message.strings("images"))
    parts.add_image("data:image;base64," + image);
  if (!text.empty() || parts.empty()) parts.add_text(text);
  return parts.take();
}

// Converts to OpenAI's messages: images to parts, thinking to reasoning_content, tool_name to name,
// and tool calls get a type.
OrderedJson to_openai(OrderedJson messages) {
  for (OrderedJson& message : messages) {
    if (!message.is_object()) continue;
    if (!message.contains("content")) message["content"] = "";
    if (message.contains("images") && message["content"].is_string()) {
      OrderedJson content = content_of(Fields(message, "messages."), message["content"]);
      message["content"] = std::move(content);
      message.erase("images");
    }
    const auto thinking = message.find("thinking");
    if (thinking != message.end() && thinking->is_string())
      message["reasoning_content"] = *thinking;
    const auto tool_name = message.find("tool_name");
    if (tool_name != message.end() && tool_name->is_string()) message["name"] = *tool_name;
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (OrderedJson& call : *calls) {
      if (call.is_object()) call["type"] = "function";
    }
  }
  return messages;
}

}  // namespace

Request read_chat(const OrderedJson& body) {
  const Fields fields(body);
  reject_unknown(fields, {"messages", "tools"});
  Request request = read_common(fields);
  request.is_chat = true;
  const OrderedJson* messages = fields.find("messages");
  request.is_empty = messages == nullptr || messages->empty();
  if (!request.is_empty) {
    if (!messages->is_array()) fields.fail_at("messages", "expected a list");
    request.conversation.messages = to_openai(*messages);
  }
  if (const OrderedJson* tools = fields.find("tools"); tools != nullptr && !tools->empty()) {
    request.conversation.tools = *tools;
    request.parse_tool_calls = true;
  }
  return request;
}

Request read_generate(const OrderedJson& body) {
  const Fields fields(body);
  reject_unknown(fields, {"prompt", "suffix", "system", "raw", "context"});
  Request request = read_common(fields);
  request.prompt = fields.string("prompt").value_or("");
  request.suffix = fields.string("suffix").value_or("");
  request.is_raw = fields.boolean("raw").value_or(false);
  request.context = fields.token_ids("context");
  const OrderedJson* images = fields.find("images");
  const bool has_images = images != nullptr && !images->empty();
  if (has_images && (request.is_raw || !request.suffix.empty()))
    fields.fail_at("images", "need the chat template: without raw and suffix");
  request.is_empty = request.prompt.empty() && request.context.empty() && !has_images;
  const std::string system = fields.string("system").value_or("");
  if (!system.empty())
    request.conversation.messages.push_back({{"role", "system"}, {"content", system}});
  request.conversation.messages.push_back(
      {{"role", "user"}, {"content", content_of(fields, request.prompt)}});
  return request;
}

}  // namespace graft::server::ollama
