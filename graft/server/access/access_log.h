// One line of JSON for every answer: who asked what, how it ended, how long it took. Never what was
// said.

#pragma once

#include <cstdio>
#include <string>

#include "graft/server/http/live_exchange.h"

namespace graft::server {

class AccessLog {
 public:
  // A file to append to, "-" for standard output, "" for none. Throws Error.
  explicit AccessLog(const std::string& path);
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  ~AccessLog();

  void write(const http::Record& record);

 private:
  std::FILE* file_ = nullptr;
  bool is_ours_ = false;
};

// The line, without its end.
std::string log_line(const http::Record& record, double unix_seconds);

}  // namespace graft::server
