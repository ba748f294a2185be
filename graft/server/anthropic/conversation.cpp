#include "graft/server/anthropic/conversation.h"

#include <string>
#include <string_view>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/json_text.h"
#include "graft/server/message_parts.h"

namespace graft::server::anthropic {
namespace {

// Claude Code writes a text that differs in every request at the start of the system prompt; it is
// for Anthropic's billing and would make every prompt miss the prefix cache.
constexpr std::string_view kBillingText = "x-anthropic-billing-header:";

void append_line(std::string& text, const std::string& line) {
  if (!text.empty()) text += '\n';
  text += line;
}

std::string text_of_blocks(const Fields& owner, const char* name);

// A document of plain text; others would need a parser of files.
std::string document_text(const Fields& block) {
  const auto citations = block.object("citations");
  if (citations && citations->boolean("enabled").value_or(false))
    block.fail_at("citations", "are not supported");
  const auto source = block.object("source");
  if (!source) block.fail_at("source", "is missing");
  const std::string type = source->required_string("type");
  if (type != "text" && type != "content")
    source->fail_at("type", str("'", type, "' is not supported, only 'text' and 'content'"));
  std::string text = block.string("title").value_or("");
  if (const auto context = block.string("context")) append_line(text, *context);
  append_line(
      text, type == "text" ? source->required_string("data") : text_of_blocks(*source, "content"));
  return text;
}

std::string block_text(const Fields& block) {
  const std::string type = block.required_string("type");
  if (type == "text") return block.required_string("text");
  if (type == "document") return document_text(block);
  if (type == "image") block.fail_at("type", "images are read from messages of the user only");
  block.fail_at("type", str("'", type, "' is not supported here"));
}

// The URL of an image block.
std::string image_url(const Fields& block) {
  const auto source = block.object("source");
  if (!source) block.fail_at("source", "is missing");
  const std::string type = source->required_string("type");
  if (type == "url") return source->required_string("url");
  if (type != "base64") source->fail_at("type", str("'", type, "' is not 'base64' or 'url'"));
  return str("data:", source->required_string("media_type"), ";base64,",
             source->required_string("data"));
}

// A text, or the texts of a list of blocks, a line each.
std::string text_of_blocks(const Fields& owner, const char* name) {
  const OrderedJson* content = owner.find(name);
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  owner.for_each_object(name, [&](const Fields& block) { append_line(text, block_text(block)); });
  return text;
}

void add_system(const Fields& fields, OrderedJson& messages) {
  const OrderedJson* system = fields.find("system");
  if (system == nullptr) return;
  std::string text;
  if (system->is_string()) {
    text = system->get<std::string>();
  } else {
    fields.for_each_object("system", [&](const Fields& block) {
      const std::string line = block_text(block);
      if (!line.starts_with(kBillingText)) append_line(text, line);
    });
  }
  if (!text.empty()) messages.push_back({{"role", "system"}, {"content", text}});
}

OrderedJson tool_message(const Fields& block) {
  std::string text = text_of_blocks(block, "content");
  // Templates have no field for a failure.
  if (block.boolean("is_error").value_or(false)) text = text.empty() ? "Error" : "Error: " + text;
  return {{"role", "tool"},
          {"tool_call_id", block.required_string("tool_use_id")},
          {"content", std::move(text)}};
}

// Results of tools become messages of their own.
void add_user(const Fields& message, OrderedJson& messages) {
  MessageParts parts;
  const auto flush = [&] {
    if (!parts.empty()) messages.push_back({{"role", "user"}, {"content", parts.take()}});
  };
  message.for_each_object("content", [&](const Fields& block) {
    const std::string type = block.required_string("type");
    if (type == "tool_result") {
      flush();
      messages.push_back(tool_message(block));
    } else if (type == "image") {
      parts.add_image(image_url(block));
    } else {
      parts.add_text(block_text(block));
    }
  });
  flush();
}

OrderedJson call_of(const Fields& block) {
  const OrderedJson* input = block.find("input");
  if (input == nullptr) block.fail_at("input", "is missing");
  if (!input->is_object())
    block.fail_at("input", str("expected an object, got ", input->type_name()));
  return {{"id", block.required_string("id")},
          {"type", "function"},
          {"function", {{"name", block.required_string("name")}, {"arguments", *input}}}};
}

void add_assistant(const Fields& message, OrderedJson& messages) {
  std::string text;
  std::string reasoning;
  OrderedJson calls = OrderedJson::array();
  message.for_each_object("content", [&](const Fields& block) {
    const std::string type = block.required_string("type");
    if (type == "thinking") {
      append_line(reasoning, block.required_string("thinking"));
    } else if (type == "tool_use") {
      calls.push_back(call_of(block));
    } else if (type != "redacted_thinking") {  // encrypted by Anthropic: no model here can read it
      append_line(text, block_text(block));
    }
  });
  OrderedJson out = {{"role", "assistant"}, {"content", std::move(text)}};
  if (!reasoning.empty()) out["reasoning_content"] = std::move(reasoning);
  if (!calls.empty()) out["tool_calls"] = std::move(calls);
  messages.push_back(std::move(out));
}

void add_message(const Fields& message, OrderedJson& messages) {
  const std::string role = message.required_string("role");
  if (role != "user" && role != "assistant" && role != "system")
    message.fail_at("role", str("'", role, "' is not 'user', 'assistant' or 'system'"));
  const OrderedJson* content = message.find("content");
  if (content == nullptr) message.fail_at("content", "is missing");
  if (content->is_string() || role == "system") {
    messages.push_back({{"role", role}, {"content", text_of_blocks(message, "content")}});
  } else if (role == "user") {
    add_user(message, messages);
  } else {
    add_assistant(message, messages);
  }
}

// A tool of the API itself has a type with a date ("web_search_20250305") and no schema.
void check_tool_kind(const Fields& tool) {
  const std::string type = tool.string("type").value_or("custom");
  if (type != "custom")
    tool.fail_at("type", str("'", type, "' is not supported, only tools with an input_schema"));
  if (tool.boolean("defer_loading").value_or(false))
    tool.fail_at("defer_loading", "needs the tool search, which is not supported");
  for (const std::string& caller : tool.strings("allowed_callers")) {
    if (caller != "direct")
      tool.fail_at("allowed_callers", str("'", caller, "' is not supported, only 'direct'"));
  }
}

OrderedJson function_of(const Fields& tool) {
  check_tool_kind(tool);
  const auto schema = tool.object("input_schema");
  if (!schema) tool.fail_at("input_schema", "is missing");
  std::string description = tool.string("description").value_or("");
  if (const OrderedJson* examples = tool.find("input_examples"))
    append_line(description, "Examples of the input: " + ordered_text(*examples));
  OrderedJson function = {{"name", tool.required_string("name")},
                          {"description", std::move(description)},
                          {"parameters", schema->json()}};
  if (const auto strict = tool.boolean("strict")) function["strict"] = *strict;
  return {{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace

OrderedJson read_conversation(const Fields& fields) {
  OrderedJson messages = OrderedJson::array();
  add_system(fields, messages);
  fields.for_each_object("messages",
                         [&](const Fields& message) { add_message(message, messages); });
  return messages;
}

OrderedJson read_tools(const Fields& fields) {
  if (!fields.has("tools")) return nullptr;
  OrderedJson tools = OrderedJson::array();
  fields.for_each_object("tools", [&](const Fields& tool) { tools.push_back(function_of(tool)); });
  return tools.empty() ? OrderedJson(nullptr) : tools;
}

}  // namespace graft::server::anthropic
