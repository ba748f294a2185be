// Access log: one JSON object per line and request with client, path, status, bytes and time. Never
// prompts or outputs.

#pragma once

#include <string>

#include "graft/server/http/live_exchange.h"

namespace graft::server {

// One log line without the newline.
std::string log_line(const http::LogRecord& record, double unix_seconds);

}  // namespace graft::server
