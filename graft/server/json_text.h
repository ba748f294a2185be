// Compact JSON for the wire. Bytes that are not UTF-8 (a model can produce them) become U+FFFD.

#pragma once

#include <string>

#include "graft/base/text/json.h"

namespace graft::server {

inline std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The same, keeping the order of the keys.
inline std::string ordered_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace graft::server
