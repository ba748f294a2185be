#include "graft/server/openai/responses/items.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/server/generation/tool_calls.h"
#include "graft/server/message_parts.h"
#include "graft/server/openai/wire.h"

namespace graft::server::openai::responses {
namespace {

void append_line(std::string& text, std::string_view line) {
  if (!text.empty()) text += '\n';
  text += line;
}

bool is_text_part(const std::string& type) {
  return type == "input_text" || type == "output_text" || type == "text";
}

void check_part(const Fields& part) {
  const std::string type = part.required_string("type");
  if (is_text_part(type)) {
    part.required_string("text");
  } else if (type == "refusal") {
    part.required_string("refusal");
  } else if (type == "input_image") {
    part.fail_at("type", "images are read from messages of the user only");
  } else {
    part.fail_at("type", str("'", type, "' is not supported, only text and images"));
  }
}

// Of a user's message.
void check_user_part(const Fields& part) {
  if (part.required_string("type") != "input_image") return check_part(part);
  part.reject("file_id", "files are not supported; use image_url");
  part.required_string("image_url");
  part.string("detail");
}

// A text or a list of text parts.
void check_content(const Fields& owner, const char* name) {
  const OrderedJson* content = owner.find(name);
  if (content != nullptr && content->is_string()) return;
  owner.for_each_object(name, check_part);
}

void check_message(const Fields& item) {
  static constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system",
                                                             "developer"};
  const std::string role = item.required_string("role");
  if (std::ranges::find(kRoles, role) == kRoles.end())
    item.fail_at("role", str("'", role, "' is not user, assistant, system or developer"));
  const OrderedJson* content = item.find("content");
  if (role != "user" || (content != nullptr && content->is_string()))
    return check_content(item, "content");
  item.for_each_object("content", check_user_part);
}

std::string joined_name(const std::string& name_space, const std::string& name) {
  return name_space.empty() ? name : str(name_space, "__", name);
}

void check_texts(const Fields& item, const char* name) {
  if (!item.has(name)) return;
  item.for_each_object(name, [](const Fields& part) { part.required_string("text"); });
}

// Returns the prefix of a new id.
const char* check_item(const Fields& item, const std::string& type) {
  if (type == "message") {
    check_message(item);
    return "msg_";
  }
  if (type == "function_call") {
    for (const char* name : {"call_id", "name", "arguments"})
      item.required_string(name);
    item.string("namespace");
    return "fc_";
  }
  if (type == "function_call_output") {
    item.required_string("call_id");
    check_content(item, "output");
    return "fco_";
  }
  if (type == "reasoning") {
    check_texts(item, "summary");
    check_texts(item, "content");
    item.string("encrypted_content");
    return "rs_";
  }
  if (type != "item_reference") item.fail_at("type", str("'", type, "' is not supported"));
  item.required_string("id");
  return "";
}

// Without a type an item with only an id is a reference, any other a message.
std::string type_of(const Fields& item) {
  if (const auto type = item.string("type")) return *type;
  return item.has("id") && !item.has("role") ? "item_reference" : "message";
}

OrderedJson read_item(const Fields& item) {
  const std::string type = type_of(item);
  const char* prefix = check_item(item, type);
  OrderedJson out = item.json();
  out["type"] = type;
  if (!item.string("id")) out["id"] = new_id(prefix);
  return out;
}

std::string content_text(const OrderedJson& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const OrderedJson& part : content)
    append_line(text, part.value(part["type"] == "refusal" ? "refusal" : "text", ""));
  return text;
}

// The content of a user's message: text, or parts where it has images.
OrderedJson user_content(const OrderedJson& content) {
  if (content.is_string()) return content;
  MessageParts parts;
  for (const OrderedJson& part : content) {
    if (part["type"] == "input_image") {
      parts.add_image(part["image_url"].get<std::string>());
    } else {
      parts.add_text(content_text(OrderedJson::array({part})));
    }
  }
  return parts.take();
}

std::string joined_texts(const OrderedJson& item, const char* name) {
  std::string text;
  const auto parts = item.find(name);
  if (parts == item.end() || !parts->is_array()) return text;
  for (const OrderedJson& part : *parts)
    append_line(text, part["text"].get_ref<const std::string&>());
  return text;
}

// The reasoning itself, what the client kept of it, or its summary.
std::string reasoning_of(const OrderedJson& item) {
  std::string text = joined_texts(item, "content");
  if (!text.empty()) return text;
  const auto kept = item.find("encrypted_content");
  if (kept != item.end() && kept->is_string()) {
    const std::string_view content = kept->get_ref<const std::string&>();
    if (content.starts_with(kReasoningMark))
      return std::string(content.substr(kReasoningMark.size()));
  }
  return joined_texts(item, "summary");
}

// Builds messages item by item.
class Messages {
 public:
  explicit Messages(const std::string& instructions) { add_system(instructions); }

  void add(const OrderedJson& item) {
    const auto& type = item["type"].get_ref<const std::string&>();
    if (type == "message") {
      if (item["role"] == "user") {
        reasoning_.clear();
        messages_.push_back({{"role", "user"}, {"content", user_content(item["content"])}});
      } else {
        add_message(item["role"].get<std::string>(), content_text(item["content"]));
      }
    } else if (type == "reasoning") {
      append_line(reasoning_, reasoning_of(item));
    } else if (type == "function_call") {
      add_call(item);
    } else if (type == "function_call_output") {
      messages_.push_back({{"role", "tool"},
                           {"tool_call_id", item["call_id"]},
                           {"content", content_text(item["output"])}});
    }
  }

  OrderedJson take() {
    if (!reasoning_.empty()) add_assistant({});  // reasoning that was cut off
    return std::move(messages_);
  }

 private:
  void add_system(const std::string& text) {
    if (text.empty()) return;
    const bool is_start = messages_.size() == 1 && messages_[0]["role"] == "system";
    if (is_start) {
      messages_[0]["content"].get_ref<std::string&>() += "\n\n" + text;
    } else {
      messages_.push_back({{"role", "system"}, {"content", text}});
    }
  }

  void add_message(const std::string& role, std::string text) {
    if (role == "system" || role == "developer") {
      add_system(text);
    } else {
      add_assistant(std::move(text));
    }
  }

  void add_assistant(std::string text) {
    OrderedJson message = {{"role", "assistant"}, {"content", std::move(text)}};
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
    messages_.push_back(std::move(message));
  }

  void add_call(const OrderedJson& item) {
    const bool is_same_turn =
        reasoning_.empty() && !messages_.empty() && messages_.back()["role"] == "assistant";
    if (!is_same_turn) add_assistant({});
    messages_.back()["tool_calls"].push_back(
        {{"id", item["call_id"]},
         {"type", "function"},
         {"function",
          {{"name", called_name(item)},
           {"arguments", call_arguments(item["arguments"].get_ref<const std::string&>())}}}});
  }

  static std::string called_name(const OrderedJson& item) {
    const auto space = item.find("namespace");
    const bool has_space = space != item.end() && space->is_string();
    return joined_name(has_space ? space->get<std::string>() : "", item["name"].get<std::string>());
  }

  OrderedJson messages_ = OrderedJson::array();
  std::string reasoning_;  // of the next message of the assistant
};

OrderedJson function_of(const Fields& tool, const std::string& name_space) {
  if (tool.boolean("defer_loading").value_or(false))
    tool.fail_at("defer_loading", "needs the tool search, which is not supported");
  OrderedJson function = {{"name", joined_name(name_space, tool.required_string("name"))},
                          {"description", tool.string("description").value_or("")}};
  if (const auto parameters = tool.object("parameters"))
    function["parameters"] = parameters->json();
  if (const auto strict = tool.boolean("strict")) function["strict"] = *strict;
  return {{"type", "function"}, {"function", std::move(function)}};
}

// Calls use(tool, namespace) for every function of `tools`.
template <class Use>
void each_function(const Fields& fields, const Use& use) {
  if (!fields.has("tools")) return;
  fields.for_each_object("tools", [&](const Fields& tool) {
    const std::string type = tool.required_string("type");
    if (type.starts_with("web_search")) return;
    if (type == "function") {
      use(tool, std::string());
    } else if (type == "namespace") {
      const std::string name = tool.required_string("name");
      tool.for_each_object("tools", [&](const Fields& inner) {
        if (inner.required_string("type") != "function")
          inner.fail_at("type", "a namespace has only functions");
        use(inner, name);
      });
    } else {
      tool.fail_at("type", str("'", type, "' is not supported, only 'function' and 'namespace'"));
    }
  });
}

}  // namespace

OrderedJson read_items(const Fields& fields) {
  const OrderedJson* input = fields.find("input");
  if (input == nullptr) return OrderedJson::array();
  if (input->is_string()) {
    return OrderedJson::array(
        {{{"type", "message"},
          {"id", new_id("msg_")},
          {"role", "user"},
          {"content", OrderedJson::array({{{"type", "input_text"}, {"text", *input}}})}}});
  }
  OrderedJson items = OrderedJson::array();
  fields.for_each_object("input", [&](const Fields& item) { items.push_back(read_item(item)); });
  return items;
}

OrderedJson to_messages(const OrderedJson& items, const std::string& instructions) {
  Messages messages(instructions);
  for (const OrderedJson& item : items)
    messages.add(item);
  return messages.take();
}

OrderedJson read_function_tools(const Fields& fields) {
  OrderedJson tools = OrderedJson::array();
  each_function(fields, [&](const Fields& tool, const std::string& name_space) {
    tools.push_back(function_of(tool, name_space));
  });
  return tools.empty() ? OrderedJson(nullptr) : tools;
}

std::map<std::string, QualifiedName> read_namespaces(const Fields& fields) {
  std::map<std::string, QualifiedName> names;
  each_function(fields, [&](const Fields& tool, const std::string& name_space) {
    if (name_space.empty()) return;
    const std::string name = tool.required_string("name");
    names[joined_name(name_space, name)] = {.name_space = name_space, .name = name};
  });
  return names;
}

}  // namespace graft::server::openai::responses
