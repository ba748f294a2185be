#include "graft/hub/fields.h"

#include "graft/base/error.h"

namespace graft::hub {

const Json& array_field(const Json& object, const char* name, const std::string& where) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_array())
    fail(where, ": field '", name, "' is not an array");
  return object[name];
}

std::string string_field(const Json& object, const char* name, const std::string& where) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_string())
    fail(where, ": field '", name, "' is not a string");
  return object[name].get<std::string>();
}

std::string optional_string(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_string()) return {};
  return object[name].get<std::string>();
}

std::uint64_t size_field(const Json& object, const char* name, const std::string& where) {
  const bool is_number =
      object.is_object() && object.contains(name) && object[name].is_number_integer();
  if (!is_number || object[name] < 0 || object[name] > kMaxFileBytes) {
    fail(where, ": field '", name, "' is not a size of 0 to ", kMaxFileBytes, " bytes");
  }
  return object[name].get<std::uint64_t>();
}

}  // namespace graft::hub
