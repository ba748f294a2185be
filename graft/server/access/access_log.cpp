#include "graft/server/access/access_log.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "graft/server/json_text.h"
#include "graft/server/time_text.h"

namespace graft::server {

std::string traceparent_of(const http::Request& request) {
  // version "-" 16 bytes "-" 8 bytes "-" flags, in lower-case hexadecimal digits
  constexpr std::string_view kForm = "00-00000000000000000000000000000000-0000000000000000-00";
  const std::string_view given = request.header("traceparent");
  const auto fits = [](char c, char form) {
    return form == '-' ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  const bool is_valid = std::equal(given.begin(), given.end(), kForm.begin(), kForm.end(), fits);
  return std::string(is_valid ? given : "");
}

std::string log_line(const http::LogRecord& record, double unix_seconds) {
  OrderedJson line = {{"time", rfc3339(unix_seconds)},
                      {"id", record.request->id},
                      {"remote", record.request->remote},
                      {"method", record.request->method},
                      {"path", record.request->path},
                      {"status", record.status},
                      {"bytes", record.bytes},
                      {"ms", std::round(record.seconds * 1e6) / 1e3}};
  if (const std::string trace = traceparent_of(*record.request); !trace.empty())
    line["traceparent"] = trace;
  for (const auto& [name, value] : record.log_fields.items())
    line[name] = value;
  return ordered_text(line);
}

}  // namespace graft::server
