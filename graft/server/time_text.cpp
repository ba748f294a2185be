#include "graft/server/time_text.h"

#include <chrono>
#include <cmath>
#include <ctime>

#include <fmt/format.h>

namespace graft::server {

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string rfc3339(double unix_seconds) {
  const double whole = std::floor(unix_seconds);
  const auto time = static_cast<std::time_t>(whole);
  std::tm parts = {};
  gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     static_cast<int>((unix_seconds - whole) * 1e6));
}

}  // namespace graft::server
