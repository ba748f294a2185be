// Typed access to the JSON of a hub: a missing or mistyped field is an Error with its name.

#pragma once

#include <cstdint>
#include <string>

#include "graft/base/text/json.h"

namespace graft::hub {

// Largest size of a file that a hub may announce: 16 TiB.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 44U;

const Json& array_field(const Json& object, const char* name, const std::string& where);
std::string string_field(const Json& object, const char* name, const std::string& where);
// Empty when it is missing or not a string.
std::string optional_string(const Json& object, const char* name);
// 0 to kMaxFileBytes.
std::uint64_t size_field(const Json& object, const char* name, const std::string& where);

}  // namespace graft::hub
