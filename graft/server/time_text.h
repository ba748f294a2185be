// Timestamps for responses and logs.

#pragma once

#include <string>

namespace graft::server {

double unix_now();                         // Unix time in seconds
std::string rfc3339(double unix_seconds);  // "2026-08-01T12:00:00.123456Z"

}  // namespace graft::server
