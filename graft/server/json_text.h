// JSON as it goes over the wire: compact, and valid whatever bytes a model made.

#pragma once

#include <string>

#include "graft/base/text/json.h"

namespace graft::server {

inline std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The same with keys in their order.
inline std::string ordered_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace graft::server
