// Access log: one JSON object per line and request with client, path, status, bytes and time. Never
// prompts or outputs.

#pragma once

#include <cstdio>
#include <string>

#include "graft/server/http/live_exchange.h"

namespace graft::server {

class AccessLog {
 public:
  // `path`: a file to append to, "-" for standard output, "" for none. Throws Error.
  explicit AccessLog(const std::string& path);
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  ~AccessLog();

  void write(const http::LogRecord& record);

 private:
  std::FILE* file_ = nullptr;
  bool owns_file_ = false;
};

// One log line without the newline.
std::string log_line(const http::LogRecord& record, double unix_seconds);

}  // namespace graft::server
