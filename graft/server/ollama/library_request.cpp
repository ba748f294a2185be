#include "graft/server/ollama/library_request.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/chat/builtin_templates.h"
#include "graft/chat/messages.h"
#include "graft/server/fields.h"
#include "graft/server/ollama/chat_request.h"
#include "graft/server/ollama/options.h"

namespace graft::server::ollama {
namespace {

// Ollama's options that a model may set.
constexpr std::array<std::string_view, 12> kParameters = {
    "temperature", "top_k", "top_p",       "min_p",   "repeat_penalty", "presence_penalty",
    "seed",        "stop",  "num_predict", "num_ctx", "repeat_last_n",  "frequency_penalty"};

std::string model_name(const Fields& fields) {
  return fields.required_string(fields.has("model") ? "model" : "name");
}

OrderedJson read_parameters(const Fields& fields) {
  const auto parameters = fields.object("parameters");
  if (!parameters) return OrderedJson::object();
  for (const auto& [name, value] : parameters->json().items()) {
    if (std::ranges::find(kParameters, name) == kParameters.end())
      parameters->fail_at(name, "is not a parameter of a model");
  }
  const OrderedJson options = {{"options", parameters->json()}};
  read_options(Fields(options));
  return parameters->json();
}

// A Jinja template, or the source of the built-in one of this name.
std::string read_template(const Fields& fields, const std::string& text) {
  for (const chat::BuiltinTemplate& builtin : chat::builtin_templates()) {
    if (builtin.name == text) return std::string(builtin.source);
  }
  if (is_go_template(text)) {
    fields.fail_at("template",
                   "Go templates are not supported: send a Jinja template or the name of a "
                   "built-in one such as chatml, or leave it out for the model's own");
  }
  try {
    const chat::ChatTemplate parsed(text, "template");
  } catch (const Error& error) {
    fields.fail_at("template", error.what());
  }
  return text;
}

OrderedJson read_messages(const Fields& fields) {
  const OrderedJson body = {{"model", "m"}, {"messages", *fields.find("messages")}};
  OrderedJson messages = read_chat(body).conversation.messages;
  try {
    if (!messages.empty()) chat::check_messages(messages);
  } catch (const Error& error) {
    fields.fail_at("messages", error.what());
  }
  return messages;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts)
    all += (all.empty() ? "" : "\n") + text;
  return all;
}

}  // namespace

bool is_go_template(const std::string& text) {
  constexpr std::array<std::string_view, 7> kWords = {"if",   "else",   "end",  "range",
                                                      "with", "define", "block"};
  for (std::size_t at = text.find("{{"); at != std::string::npos; at = text.find("{{", at + 2)) {
    std::size_t begin = at + 2;
    while (begin < text.size() &&
           (text[begin] == '-' || std::isspace(static_cast<unsigned char>(text[begin])) != 0))
      ++begin;
    const std::string_view action = std::string_view(text).substr(begin);
    if (action.starts_with('.') || action.starts_with('$')) return true;
    const auto* end = std::ranges::find_if(action, [](char c) {
      return c != '_' && std::isalnum(static_cast<unsigned char>(c)) == 0;
    });
    const std::string_view word = action.substr(0, static_cast<std::size_t>(end - action.begin()));
    if (std::ranges::find(kWords, word) != kWords.end()) return true;
  }
  return false;
}

PullRequest read_pull(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"model", "name", "stream", "insecure"});
  if (fields.boolean("insecure").value_or(false))
    fields.fail_at("insecure", "is not supported: certificates are always checked");
  return {.model = model_name(fields), .is_stream = fields.boolean("stream").value_or(true)};
}

NewModelRequest read_create(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject("files",
                "is not supported: put the files on the server and serve them, then use from");
  fields.reject_unknown({"model", "name", "from", "system", "template", "messages", "parameters",
                         "license", "stream"});
  NewModelRequest request = {.is_stream = fields.boolean("stream").value_or(true)};
  CreateRequest& create = request.create;
  create.model = model_name(fields);
  create.from = fields.required_string("from");
  if (create.from.empty()) fields.fail_at("from", "is empty");
  create.system = fields.string("system");
  if (const auto text = fields.string("template"); text && !text->empty())
    create.chat_template = read_template(fields, *text);
  if (fields.has("messages")) create.messages = read_messages(fields);
  create.parameters = read_parameters(fields);
  if (fields.has("license")) create.license = joined(fields.strings("license"));
  return request;
}

CopyRequest read_copy(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"source", "destination"});
  return {.source = fields.required_string("source"),
          .destination = fields.required_string("destination")};
}

std::string read_delete(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"model", "name"});
  std::string name = model_name(fields);
  if (name.empty()) fields.fail_at("model", "is empty");
  return name;
}

}  // namespace graft::server::ollama
