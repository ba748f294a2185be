// Access log: one JSON object per line and request with client, path, status, bytes and time. Never
// prompts or outputs.

#pragma once

#include <string>

#include "graft/server/http/live_exchange.h"

namespace graft::server {

// The W3C traceparent header of a request, which is logged and returned; empty when it is missing
// or malformed.
std::string traceparent_of(const http::Request& request);

// One log line without the newline.
std::string log_line(const http::LogRecord& record, double unix_seconds);

}  // namespace graft::server
