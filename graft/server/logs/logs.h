// The logs of a server: standard output, messages on standard error, and the access log. A reader
// that pauses or leaves costs lines, never service.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "graft/base/text/json.h"
#include "graft/server/logs/log_writer.h"

namespace graft::server {

enum class LogLevel : std::uint8_t { Error, Warning, Info, Debug };
// "error", "warning", "info", "debug"; nullopt for other text.
std::optional<LogLevel> parse_log_level(std::string_view text);

struct LogConfig {
  std::string access_path = {};     // a file to append to, "-" for standard output, "" for none
  LogLevel level = LogLevel::Info;  // messages up to this level are written
  bool is_json = false;             // messages are JSON objects instead of text
};

class Logs {
 public:
  // Ignores SIGPIPE, which would end the process when a reader leaves. Throws Error.
  explicit Logs(const LogConfig& config = {});
  Logs(const Logs&) = delete;
  Logs& operator=(const Logs&) = delete;
  ~Logs() = default;

  // A line on standard output.
  void print(std::string line) { output_.write(std::move(line)); }
  // A message on standard error: "graft: warning: …", or a JSON object with time, level, event,
  // message and the fields, which text messages leave out.
  void log(LogLevel level,
           std::string_view event,
           const std::string& text,
           const OrderedJson& fields = OrderedJson::object());
  void warn(const std::string& text) { log(LogLevel::Warning, "warning", text); }
  bool writes(LogLevel level) const { return level <= level_; }
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
  const bool has_access_log_;
  const LogLevel level_;
  const bool is_json_;
};

}  // namespace graft::server
