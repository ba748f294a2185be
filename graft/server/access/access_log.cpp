#include "graft/server/access/access_log.h"

#include <cmath>

#include "graft/server/json_text.h"
#include "graft/server/time_text.h"

namespace graft::server {

std::string log_line(const http::LogRecord& record, double unix_seconds) {
  OrderedJson line = {{"time", rfc3339(unix_seconds)},
                      {"id", record.request->id},
                      {"remote", record.request->remote},
                      {"method", record.request->method},
                      {"path", record.request->path},
                      {"status", record.status},
                      {"bytes", record.bytes},
                      {"ms", std::round(record.seconds * 1e6) / 1e3}};
  for (const auto& [name, value] : record.log_fields.items())
    line[name] = value;
  return ordered_text(line);
}

}  // namespace graft::server
