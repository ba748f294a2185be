#include "graft/chat/messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "graft/base/error.h"

namespace graft::chat {
namespace {

// Optional text fields of a message.
constexpr std::array<const char*, 5> kTextFields = {"name", "tool_call_id", "reasoning",
                                                    "reasoning_content", "thinking"};
constexpr std::size_t kMaxRoleBytes = 64;

// "messages[2]": the path of an element, for error messages.
std::string element_path(const std::string& parent, std::size_t index) {
  return str(parent, "[", index, "]");
}

// Null for a missing key and for JSON null.
const OrderedJson* find(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const OrderedJson& require_object(const OrderedJson& value, const std::string& where) {
  if (!value.is_object()) fail(where, ": must be an object, not ", value.type_name());
  return value;
}

const OrderedJson& require_list(const OrderedJson& value, const std::string& where) {
  if (!value.is_array()) fail(where, ": must be a list, not ", value.type_name());
  return value;
}

const std::string& require_text(const OrderedJson& object,
                                const char* key,
                                const std::string& where) {
  const OrderedJson* value = find(object, key);
  if (value == nullptr) fail(where, ".", key, ": is missing");
  if (!value->is_string()) fail(where, ".", key, ": must be text, not ", value->type_name());
  return value->get_ref<const std::string&>();
}

void check_optional_text(const OrderedJson& object, const char* key, const std::string& where) {
  if (find(object, key) != nullptr) require_text(object, key, where);
}

// Templates print the role unescaped, so it must not contain control tokens such as <|im_end|>.
void check_role(const std::string& role, const std::string& where) {
  const bool is_word = std::ranges::all_of(role, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (role.empty() || role.size() > kMaxRoleBytes || !is_word)
    fail(where, ".role: '", role.substr(0, kMaxRoleBytes), "' is not a valid role");
}

// {"image_url": {"url": …}}, or the text alone. `detail` is OpenAI's.
const std::string& image_url(const OrderedJson& part, const std::string& where) {
  const OrderedJson* value = find(part, "image_url");
  if (value == nullptr) fail(where, ".image_url: is missing");
  if (value->is_string()) return value->get_ref<const std::string&>();
  require_object(*value, where + ".image_url");
  check_optional_text(*value, "detail", where + ".image_url");
  return require_text(*value, "url", where + ".image_url");
}

void check_content(const OrderedJson& message, const std::string& role, const std::string& where) {
  const OrderedJson* content = find(message, "content");
  if (content == nullptr) {
    if (role != "assistant") fail(where, ".content: is missing");
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array())
    fail(where, ".content: must be text or a list of parts, not ", content->type_name());
  for (std::size_t i = 0; i < content->size(); ++i) {
    const std::string part_path = element_path(where + ".content", i);
    const OrderedJson& part = require_object((*content)[i], part_path);
    const std::string& type = require_text(part, "type", part_path);
    if (type == "image_url") {
      image_url(part, part_path);
      continue;
    }
    if (type != "text")
      fail(part_path, ".type: '", type, "' is not supported, only 'text' and 'image_url'");
    require_text(part, "text", part_path);
  }
}

void check_tool_call(const OrderedJson& call, const std::string& where) {
  require_object(call, where);
  check_optional_text(call, "id", where);
  check_optional_text(call, "type", where);
  const OrderedJson* function = find(call, "function");
  if (function == nullptr) fail(where, ".function: is missing");
  require_object(*function, where + ".function");
  require_text(*function, "name", where + ".function");
  const OrderedJson* arguments = find(*function, "arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    fail(where, ".function.arguments: must be an object or its JSON text, not ",
         arguments->type_name());
  }
}

void check_message(const OrderedJson& message, const std::string& where) {
  require_object(message, where);
  const std::string& role = require_text(message, "role", where);
  check_role(role, where);
  check_content(message, role, where);
  const OrderedJson* images = find(message, "images");
  if (images != nullptr && !images->empty()) fail(where, ".images: images are not supported");
  for (const char* field : kTextFields)
    check_optional_text(message, field, where);
  const OrderedJson* calls = find(message, "tool_calls");
  if (calls == nullptr) return;
  if (role != "assistant")
    fail(where, ".tool_calls: only assistant messages may have tool calls, not ", role);
  require_list(*calls, where + ".tool_calls");
  for (std::size_t i = 0; i < calls->size(); ++i)
    check_tool_call((*calls)[i], element_path(where + ".tool_calls", i));
}

std::string joined_text(const OrderedJson& parts, const std::string& where) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += '\n';
    text += require_text(parts[i], "text", element_path(where, i));
  }
  return text;
}

}  // namespace

void check_messages(const OrderedJson& messages) {
  require_list(messages, "messages");
  if (messages.empty()) fail("messages: must not be empty");
  for (std::size_t i = 0; i < messages.size(); ++i)
    check_message(messages[i], element_path("messages", i));
}

void check_tools(const OrderedJson& tools) {
  if (tools.is_null()) return;
  require_list(tools, "tools");
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string where = element_path("tools", i);
    const OrderedJson& tool = require_object(tools[i], where);
    const std::string& type = require_text(tool, "type", where);
    if (type != "function") fail(where, ".type: '", type, "' is not supported, only 'function' is");
    const OrderedJson* function = find(tool, "function");
    if (function == nullptr) fail(where, ".function: is missing");
    require_object(*function, where + ".function");
    require_text(*function, "name", where + ".function");
    check_optional_text(*function, "description", where + ".function");
    const OrderedJson* parameters = find(*function, "parameters");
    if (parameters != nullptr) require_object(*parameters, where + ".function.parameters");
  }
}

std::vector<ImagePart> take_images(OrderedJson& messages) {
  std::vector<ImagePart> images;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    for (std::size_t j = 0; j < content->size(); ++j) {
      OrderedJson& part = (*content)[j];
      if (part.value("type", "") != "image_url") continue;
      std::string where = element_path(element_path("messages", i) + ".content", j);
      std::string url = image_url(part, where);
      images.push_back({.where = std::move(where), .url = std::move(url)});
      part = {{"type", "image"}};
    }
  }
  return images;
}

OrderedJson write_images(OrderedJson messages, const std::string& text) {
  for (OrderedJson& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    for (OrderedJson& part : *content) {
      if (part.value("type", "") == "image") part = {{"type", "text"}, {"text", text}};
    }
  }
  return messages;
}

OrderedJson wrap_texts(OrderedJson messages) {
  for (OrderedJson& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string()) continue;
    OrderedJson part = {{"type", "text"}, {"text", *content}};
    *content = OrderedJson::array({std::move(part)});
  }
  return messages;
}

OrderedJson flatten_content(OrderedJson messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    *content = joined_text(*content, element_path("messages", i) + ".content");
  }
  return messages;
}

OrderedJson parse_tool_arguments(OrderedJson messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto calls = messages[i].find("tool_calls");
    if (calls == messages[i].end() || !calls->is_array()) continue;
    for (std::size_t j = 0; j < calls->size(); ++j) {
      OrderedJson& function = (*calls)[j]["function"];
      OrderedJson& arguments = function["arguments"];
      const std::string where =
          element_path(element_path("messages", i) + ".tool_calls", j) + ".function.arguments";
      if (arguments.is_string() && !arguments.get_ref<const std::string&>().empty())
        arguments = parse_ordered_json(arguments.get<std::string>(), where);
      if (arguments.is_null() || arguments.is_string()) arguments = OrderedJson::object();
      require_object(arguments, where);
    }
  }
  return messages;
}

OrderedJson harmony_messages(OrderedJson messages) {
  for (OrderedJson& message : messages) {
    if (message.value("role", "") != "assistant") continue;
    if (const auto content = message.find("content");
        content != message.end() && content->is_null())
      message.erase("content");
    const auto reasoning = message.find("reasoning_content");
    if (reasoning != message.end() && reasoning->is_string() && !message.contains("thinking")) {
      OrderedJson thinking = *reasoning;  // the insertion moves the members
      message["thinking"] = std::move(thinking);
    }
    const auto content = message.find("content");
    const bool is_empty = content == message.end() || content->empty() ||
                          (content->is_string() && content->get_ref<const std::string&>().empty());
    if (!is_empty && message.contains("tool_calls")) message.erase("thinking");
  }
  return messages;
}

}  // namespace graft::chat
