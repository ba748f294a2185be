#include "graft/server/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

// 32 prompts of 128 Ki tokens. More take a second to parse, only to be refused.
constexpr std::size_t kMaxValues = 4U << 20U;

}  // namespace

OrderedJson parse_body(const std::string& body) {
  OrderedJson json;
  try {
    json = parse_ordered_json(body, "request body", kMaxValues);
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
  if (!json.is_object())
    throw ApiError(400, str("request body: expected a JSON object, got ", json.type_name()));
  return json;
}

Fields::Fields(const OrderedJson& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

void Fields::fail_at(const std::string& name, const std::string& what) const {
  throw ApiError(400, prefix_ + name + ": " + what, prefix_ + name);
}

const OrderedJson* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const char* name, double min, double max) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_at(name, str("expected a number, got ", value->type_name()));
  const auto number = value->get<double>();
  if (!(number >= min && number <= max))
    fail_at(name, str("must be between ", min, " and ", max, ", got ", number));
  return number;
}

std::optional<std::int64_t> Fields::integer(const char* name,
                                            std::int64_t min,
                                            std::int64_t max) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  // Some clients send integers as floats: 16.0.
  const bool is_integral = value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
                           std::trunc(value->get<double>()) == value->get<double>();
  if (!value->is_number_integer() && !is_integral)
    fail_at(name, str("expected an integer, got ", value->dump()));
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    fail_at(name, str("must be at most ", max, ", got ", value->dump()));
  const auto number = value->get<std::int64_t>();
  if (number < min) fail_at(name, str("must be at least ", min, ", got ", number));
  if (number > max) fail_at(name, str("must be at most ", max, ", got ", number));
  return number;
}

std::optional<bool> Fields::boolean(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_at(name, str("expected true or false, got ", value->type_name()));
  return value->get<bool>();
}

std::optional<std::string> Fields::string(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_at(name, str("expected a string, got ", value->type_name()));
  return value->get<std::string>();
}

std::string read_model(const Fields& fields) {
  std::string model = fields.string("model").value_or("");
  const OrderedJson* lora = fields.find("lora");
  // llama.cpp's clients send an empty list for none.
  if (lora == nullptr || (lora->is_array() && lora->empty())) return model;
  if (!lora->is_string()) fields.fail_at("lora", "expected the name of an adapter");
  const std::string name = lora->get<std::string>();
  return name.empty() ? model : str(model, ':', name);
}

std::string Fields::required_string(const char* name) const {
  if (!has(name)) fail_at(name, "is missing");
  return *string(name);
}

std::vector<std::string> Fields::strings(const char* name, std::size_t max) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array())
    fail_at(name, str("expected a string or a list of strings, got ", value->type_name()));
  if (value->size() > max)
    fail_at(name, str("must have at most ", max, " strings, got ", value->size()));
  std::vector<std::string> out;
  for (const OrderedJson& item : *value) {
    if (!item.is_string())
      fail_at(name, str("expected a list of strings, got an item of type ", item.type_name()));
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::int32_t> Fields::token_ids(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array())
    fail_at(name, str("expected a list of token ids, got ", value->type_name()));
  std::vector<std::int32_t> out;
  for (const OrderedJson& item : *value) {
    const bool is_id = item.is_number_integer() && item.get<std::int64_t>() >= 0 &&
                       item.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
    if (!is_id) fail_at(name, str("expected a list of token ids, got the item ", item.dump()));
    out.push_back(item.get<std::int32_t>());
  }
  return out;
}

std::optional<Fields> Fields::object(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail_at(name, str("expected an object, got ", value->type_name()));
  return Fields(*value, prefix_ + name + ".");
}

const OrderedJson& Fields::list(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) fail_at(name, "is missing");
  if (!value->is_array()) fail_at(name, str("expected a list, got ", value->type_name()));
  return *value;
}

Fields Fields::object_at(const OrderedJson& list, const char* name, std::size_t index) const {
  const std::string path = str(name, "[", index, "]");
  if (!list[index].is_object())
    fail_at(path, str("expected an object, got ", list[index].type_name()));
  return Fields(list[index], prefix_ + path + ".");
}

void Fields::reject(const char* name, const std::string& why) const {
  if (has(name)) fail_at(name, why);
}

void Fields::reject_unless_empty(const char* name, const std::string& why) const {
  const OrderedJson* value = find(name);
  if (value == nullptr || *value == OrderedJson(false) || *value == OrderedJson("") ||
      (value->is_structured() && value->empty()))
    return;
  fail_at(name, why);
}

void Fields::reject_unknown(std::initializer_list<std::string_view> known,
                            std::initializer_list<std::string_view> more) const {
  for (const auto& [name, value] : object_.items()) {
    const bool is_known = std::ranges::find(known, name) != known.end() ||
                          std::ranges::find(more, name) != more.end();
    if (!is_known && !value.is_null()) fail_at(name, kUnknownField);
  }
}

}  // namespace graft::server
