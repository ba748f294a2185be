#include "graft/server/fields.h"

#include <cmath>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"

namespace graft::server {

OrderedJson parse_body(const std::string& body) {
  OrderedJson json;
  try {
    json = parse_ordered_json(body, "the body");
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
  if (!json.is_object())
    throw ApiError(400, str("the body: a JSON object is needed, not ", json.type_name()));
  return json;
}

Fields::Fields(const OrderedJson& object, std::string where)
    : object_(object), where_(std::move(where)) {}

void Fields::fail_at(const std::string& name, const std::string& what) const {
  throw ApiError(400, where_ + name + ": " + what, where_ + name);
}

const OrderedJson* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const char* name, double least, double most) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_at(name, str("a number is needed, not ", value->type_name()));
  const auto number = value->get<double>();
  if (!(number >= least && number <= most))
    fail_at(name, str("must be from ", least, " to ", most, ", not ", number));
  return number;
}

std::optional<std::int64_t> Fields::integer(const char* name,
                                            std::int64_t least,
                                            std::int64_t most) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  // Some clients write 16.0.
  const bool is_whole = value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
                        std::trunc(value->get<double>()) == value->get<double>();
  if (!value->is_number_integer() && !is_whole)
    fail_at(name, str("a whole number is needed, not ", value->dump()));
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    fail_at(name, str("must be at most ", most, ", not ", value->dump()));
  const auto number = value->get<std::int64_t>();
  if (number < least) fail_at(name, str("must be at least ", least, ", not ", number));
  if (number > most) fail_at(name, str("must be at most ", most, ", not ", number));
  return number;
}

std::optional<bool> Fields::flag(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_at(name, str("true or false is needed, not ", value->type_name()));
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_at(name, str("text is needed, not ", value->type_name()));
  return value->get<std::string>();
}

std::string Fields::needed_text(const char* name) const {
  if (!has(name)) fail_at(name, "is missing");
  return *text(name);
}

std::vector<std::string> Fields::texts(const char* name, std::size_t most) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array())
    fail_at(name, str("text or a list of texts is needed, not ", value->type_name()));
  if (value->size() > most) fail_at(name, str("at most ", most, " texts, not ", value->size()));
  std::vector<std::string> out;
  for (const OrderedJson& item : *value) {
    if (!item.is_string())
      fail_at(name, str("a list of texts is needed, not of ", item.type_name()));
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::int32_t> Fields::ids(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) fail_at(name, str("a list of ids is needed, not ", value->type_name()));
  std::vector<std::int32_t> out;
  for (const OrderedJson& item : *value) {
    const bool is_id = item.is_number_integer() && item.get<std::int64_t>() >= 0 &&
                       item.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
    if (!is_id) fail_at(name, str("a list of token ids is needed, not of ", item.dump()));
    out.push_back(item.get<std::int32_t>());
  }
  return out;
}

std::optional<Fields> Fields::object(const char* name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail_at(name, str("an object is needed, not ", value->type_name()));
  return Fields(*value, where_ + name + ".");
}

void Fields::refuse(const char* name, const std::string& why) const {
  if (has(name)) fail_at(name, why);
}

}  // namespace graft::server
