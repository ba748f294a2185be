#include "graft/server/access/access_log.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include "graft/base/error.h"
#include "graft/server/json_text.h"
#include "graft/server/time_text.h"

namespace graft::server {

AccessLog::AccessLog(const std::string& path) {
  if (path.empty()) return;
  if (path == "-") {
    file_ = stdout;
    return;
  }
  file_ = std::fopen(path.c_str(), "a");
  if (file_ == nullptr) fail(path, ": cannot open for writing: ", std::strerror(errno));
  owns_file_ = true;
}

AccessLog::~AccessLog() {
  if (owns_file_) std::fclose(file_);
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
  for (const auto& [name, value] : record.log_fields.items())
    line[name] = value;
  return ordered_text(line);
}

void AccessLog::write(const http::LogRecord& record) {
  if (file_ == nullptr) return;
  const std::string line = log_line(record, unix_now()) + '\n';
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

}  // namespace graft::server
