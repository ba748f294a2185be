// Typed access to members of tokenizer.json. A missing member or a wrong type throws Error that
// begins with `where`.

#pragma once

#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/json.h"

namespace graft::tokenizer {

// Null for a missing member and for JSON null.
inline const Json* member(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

inline std::string text_at(const Json& json, const char* key, std::string_view where) {
  const Json* value = member(json, key);
  if (value == nullptr || !value->is_string()) fail(where, ": \"", key, "\" must be a string");
  return value->get<std::string>();
}

inline std::string type_of(const Json& json, std::string_view where) {
  return text_at(json, "type", where);
}

inline bool flag_at(const Json& json, const char* key, bool fallback, std::string_view where) {
  const Json* value = member(json, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(where, ": \"", key, "\" must be true or false");
  return value->get<bool>();
}

inline const Json& list_at(const Json& json, const char* key, std::string_view where) {
  const Json* value = member(json, key);
  if (value == nullptr || !value->is_array()) fail(where, ": \"", key, "\" must be a list");
  return *value;
}

}  // namespace graft::tokenizer
