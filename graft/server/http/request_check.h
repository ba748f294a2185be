// Checks of a request head beyond its syntax, against requests that two servers in a row would read
// differently (request smuggling).

#pragma once

#include <optional>
#include <string>

#include "graft/server/http/message.h"

namespace graft::server::http {

struct HeadError {
  int status = 400;
  std::string message = {};
};

// nullopt: valid. `is_http11`: not HTTP/1.0.
std::optional<HeadError> check_head(const Request& request, bool is_http11);

}  // namespace graft::server::http
