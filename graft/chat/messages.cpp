#include "graft/chat/messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "graft/base/error.h"

namespace graft::chat {
namespace {

// Fields of a message that hold text or nothing.
constexpr std::array<const char*, 5> kTextFields = {"name", "tool_call_id", "reasoning",
                                                    "reasoning_content", "thinking"};
constexpr std::size_t kMaxRoleBytes = 64;

std::string place(const std::string& parent, std::size_t index) {
  return str(parent, "[", index, "]");
}

const OrderedJson* find(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const OrderedJson& need_object(const OrderedJson& value, const std::string& where) {
  if (!value.is_object()) fail(where, ": an object is needed, not ", value.type_name());
  return value;
}

const OrderedJson& need_list(const OrderedJson& value, const std::string& where) {
  if (!value.is_array()) fail(where, ": a list is needed, not ", value.type_name());
  return value;
}

const std::string& need_text(const OrderedJson& object, const char* key, const std::string& where) {
  const OrderedJson* value = find(object, key);
  if (value == nullptr) fail(where, ".", key, ": is missing");
  if (!value->is_string()) fail(where, ".", key, ": text is needed, not ", value->type_name());
  return value->get_ref<const std::string&>();
}

void check_optional_text(const OrderedJson& object, const char* key, const std::string& where) {
  if (find(object, key) != nullptr) need_text(object, key, where);
}

// Templates print the role; a word cannot break out of its place.
void check_role(const std::string& role, const std::string& where) {
  const bool is_word = std::ranges::all_of(role, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (role.empty() || role.size() > kMaxRoleBytes || !is_word)
    fail(where, ".role: '", role.substr(0, kMaxRoleBytes), "' is no role (a word like user)");
}

void check_content(const OrderedJson& message, const std::string& role, const std::string& where) {
  const OrderedJson* content = find(message, "content");
  if (content == nullptr) {
    if (role != "assistant") fail(where, ".content: is missing");
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array())
    fail(where, ".content: text or a list of parts is needed, not ", content->type_name());
  for (std::size_t i = 0; i < content->size(); ++i) {
    const std::string part_place = place(where + ".content", i);
    const OrderedJson& part = need_object((*content)[i], part_place);
    if (need_text(part, "type", part_place) == "text") need_text(part, "text", part_place);
  }
}

void check_tool_call(const OrderedJson& call, const std::string& where) {
  need_object(call, where);
  check_optional_text(call, "id", where);
  check_optional_text(call, "type", where);
  const OrderedJson* function = find(call, "function");
  if (function == nullptr) fail(where, ".function: is missing");
  need_object(*function, where + ".function");
  need_text(*function, "name", where + ".function");
  const OrderedJson* arguments = find(*function, "arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    fail(where, ".function.arguments: an object or its JSON text is needed, not ",
         arguments->type_name());
  }
}

void check_message(const OrderedJson& message, const std::string& where) {
  need_object(message, where);
  const std::string& role = need_text(message, "role", where);
  check_role(role, where);
  check_content(message, role, where);
  for (const char* field : kTextFields)
    check_optional_text(message, field, where);
  const OrderedJson* calls = find(message, "tool_calls");
  if (calls == nullptr) return;
  if (role != "assistant") fail(where, ".tool_calls: only the assistant calls tools, not ", role);
  need_list(*calls, where + ".tool_calls");
  for (std::size_t i = 0; i < calls->size(); ++i)
    check_tool_call((*calls)[i], place(where + ".tool_calls", i));
}

std::string joined_text(const OrderedJson& parts, const std::string& where) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& type = need_text(parts[i], "type", place(where, i));
    if (type != "text")
      fail(place(where, i), ": the template of this model reads text only, not ", type);
    if (i > 0) text += '\n';
    text += need_text(parts[i], "text", place(where, i));
  }
  return text;
}

}  // namespace

void check_messages(const OrderedJson& messages) {
  need_list(messages, "messages");
  if (messages.empty()) fail("messages: at least one is needed");
  for (std::size_t i = 0; i < messages.size(); ++i)
    check_message(messages[i], place("messages", i));
}

void check_tools(const OrderedJson& tools) {
  if (tools.is_null()) return;
  need_list(tools, "tools");
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string where = place("tools", i);
    const OrderedJson& tool = need_object(tools[i], where);
    const std::string& type = need_text(tool, "type", where);
    if (type != "function") fail(where, ".type: '", type, "', only function is known");
    const OrderedJson* function = find(tool, "function");
    if (function == nullptr) fail(where, ".function: is missing");
    need_object(*function, where + ".function");
    need_text(*function, "name", where + ".function");
    check_optional_text(*function, "description", where + ".function");
    const OrderedJson* parameters = find(*function, "parameters");
    if (parameters != nullptr) need_object(*parameters, where + ".function.parameters");
  }
}

OrderedJson flatten_content(OrderedJson messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    *content = joined_text(*content, place("messages", i) + ".content");
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
          place(place("messages", i) + ".tool_calls", j) + ".function.arguments";
      if (arguments.is_string() && !arguments.get_ref<const std::string&>().empty())
        arguments = parse_ordered_json(arguments.get<std::string>(), where);
      if (arguments.is_null() || arguments.is_string()) arguments = OrderedJson::object();
      need_object(arguments, where);
    }
  }
  return messages;
}

}  // namespace graft::chat
