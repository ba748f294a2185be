#include "graft/formats/created_model.h"

#include <cstddef>

#include "graft/base/error.h"

namespace graft::formats {
namespace {

constexpr std::size_t kMaxBytes = 16U << 20U;
constexpr int kVersion = 1;

std::string text_of(const OrderedJson& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (!found->is_string()) fail(where, ": field '", key, "' is not a string");
  return found->get<std::string>();
}

}  // namespace

bool is_created_model(const std::filesystem::path& path) {
  return path.extension() == kCreatedModelExtension;
}

CreatedModel read_created_model(const std::filesystem::path& path) {
  const std::string where = path.string();
  const OrderedJson json = read_ordered_json_file(path, kMaxBytes);
  if (!json.is_object() || json.value("graft_model", OrderedJson()) != kVersion)
    fail(where, ": expected an object with \"graft_model\": ", kVersion);
  CreatedModel model = {.name = text_of(json, "name", where),
                        .weights = text_of(json, "weights", where),
                        .from = text_of(json, "from", where),
                        .system = text_of(json, "system", where),
                        .chat_template = text_of(json, "chat_template", where),
                        .messages = json.value("messages", OrderedJson::array()),
                        .parameters = json.value("parameters", OrderedJson::object()),
                        .license = text_of(json, "license", where)};
  if (!model.messages.is_array()) fail(where, ": field 'messages' is not an array");
  if (!model.parameters.is_object()) fail(where, ": field 'parameters' is not an object");
  if (!model.weights.is_absolute()) fail(where, ": field 'weights' is not an absolute path");
  if (is_created_model(model.weights))
    fail(where, ": its weights are another created model: ", model.weights.string());
  return model;
}

std::string created_model_text(const CreatedModel& model) {
  OrderedJson json = {
      {"graft_model", kVersion}, {"name", model.name}, {"weights", model.weights.string()}};
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  add("from", model.from);
  add("system", model.system);
  add("chat_template", model.chat_template);
  if (!model.messages.empty()) json["messages"] = model.messages;
  if (!model.parameters.empty()) json["parameters"] = model.parameters;
  add("license", model.license);
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::filesystem::path weights_path(const std::filesystem::path& path) {
  return is_created_model(path) ? read_created_model(path).weights : path;
}

}  // namespace graft::formats
