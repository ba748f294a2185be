// The logs of a server: standard output, standard error and the access log. A reader that pauses or
// leaves costs lines, never service.

#pragma once

#include <optional>
#include <string>

#include "graft/server/logs/log_writer.h"

namespace graft::server {

class Logs {
 public:
  // `access_path`: a file to append to, "-" for standard output, "" for none. Ignores SIGPIPE,
  // which would end the process when a reader leaves. Throws Error.
  explicit Logs(const std::string& access_path = {});
  Logs(const Logs&) = delete;
  Logs& operator=(const Logs&) = delete;
  ~Logs() = default;

  // A line on standard output, and on standard error.
  void print(std::string line) { output_.write(std::move(line)); }
  void print_error(std::string line) { errors_.write(std::move(line)); }
  // "graft: warning: …" on standard error.
  void warn(const std::string& text);
  bool has_access_log() const { return has_access_log_; }
  void write_access(std::string line);

  // Opens the files again, after a log rotation.
  void reopen();
  // The dropped lines of each log in Prometheus's text format.
  std::string metrics_text() const;

 private:
  LogWriter errors_;  // destroyed last: the others report to it
  LogWriter output_;
  std::optional<LogWriter> access_file_;
  bool has_access_log_;
};

}  // namespace graft::server
