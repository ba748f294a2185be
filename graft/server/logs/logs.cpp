#include "graft/server/logs/logs.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>

#include <fmt/format.h>
#include <unistd.h>

#include "graft/server/json_text.h"
#include "graft/server/time_text.h"

namespace graft::server {

namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warning", "info", "debug"};

std::string_view name_of(LogLevel level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) {
  const auto* found = std::ranges::find(kLevelNames, text);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kLevelNames.begin());
}

Logs::Logs(const LogConfig& config)
    : errors_(LogWriter::to_descriptor(STDERR_FILENO, "standard error")),
      output_(LogWriter::to_descriptor(
          STDOUT_FILENO, "standard output", [this](const std::string& message) { warn(message); })),
      has_access_log_(!config.access_path.empty()),
      level_(config.level),
      is_json_(config.is_json) {
  std::signal(SIGPIPE, SIG_IGN);
  if (has_access_log_ && config.access_path != "-") {
    access_file_.emplace(LogWriter::to_file(config.access_path,
                                            [this](const std::string& message) { warn(message); }));
  }
}

void Logs::log(LogLevel level,
               std::string_view event,
               const std::string& text,
               const OrderedJson& fields) {
  if (!writes(level)) return;
  if (!is_json_) {
    const bool is_problem = level <= LogLevel::Warning;
    errors_.write(fmt::format("graft: {}{}{}", is_problem ? name_of(level) : "",
                              is_problem ? ": " : "", text));
    return;
  }
  OrderedJson line = {{"time", rfc3339(unix_now())},
                      {"level", name_of(level)},
                      {"event", event},
                      {"message", text}};
  for (const auto& [name, value] : fields.items())
    line[name] = value;
  errors_.write(ordered_text(line));
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
