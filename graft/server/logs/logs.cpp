#include "graft/server/logs/logs.h"

#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

namespace graft::server {

Logs::Logs(const std::string& access_path)
    : errors_(LogWriter::to_descriptor(STDERR_FILENO, "standard error")),
      output_(LogWriter::to_descriptor(
          STDOUT_FILENO, "standard output", [this](const std::string& message) { warn(message); })),
      has_access_log_(!access_path.empty()) {
  std::signal(SIGPIPE, SIG_IGN);
  if (has_access_log_ && access_path != "-") {
    access_file_.emplace(
        LogWriter::to_file(access_path, [this](const std::string& message) { warn(message); }));
  }
}

void Logs::warn(const std::string& text) {
  print_error("graft: warning: " + text);
}

void Logs::write_access(std::string line) {
  if (!has_access_log_) return;
  LogWriter& writer = access_file_ ? *access_file_ : output_;
  writer.write(std::move(line));
}

void Logs::reopen() {
  if (access_file_) access_file_->reopen();
}

std::string Logs::metrics_text() const {
  constexpr const char* kName = "graft:log_lines_dropped_total";
  std::string text = fmt::format(
      "# HELP {0} Log lines dropped because the reader was too slow or the write failed.\n"
      "# TYPE {0} counter\n",
      kName);
  const auto add = [&](const char* log, const LogWriter& writer) {
    text += fmt::format("{}{{log=\"{}\"}} {}\n", kName, log, writer.num_dropped());
  };
  add("stdout", output_);
  add("stderr", errors_);
  if (access_file_) add("access", *access_file_);
  return text;
}

}  // namespace graft::server
