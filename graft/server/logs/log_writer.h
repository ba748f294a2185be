// Writes lines to a file or a standard stream on a thread of its own, so that a full pipe, a slow
// disk or a terminal that is paused never blocks the server. The queue is bounded: lines that do
// not fit, and lines that cannot be written, are dropped and counted.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace graft::server {

class LogWriter {
 public:
  // Called, from any thread, at the first dropped line and when lines are written again.
  using OnProblem = std::function<void(const std::string& message)>;

  // About 20k lines of the access log.
  static constexpr std::size_t kMaxQueuedBytes = 4U << 20U;

  // Appends to the file, which reopen() opens again. Throws Error.
  static LogWriter to_file(const std::string& path,
                           OnProblem on_problem = {},
                           std::size_t max_queued_bytes = kMaxQueuedBytes);
  // Writes to an open file descriptor, which is not closed. `name` is the subject of messages.
  static LogWriter to_descriptor(int descriptor,
                                 const std::string& name,
                                 OnProblem on_problem = {},
                                 std::size_t max_queued_bytes = kMaxQueuedBytes);
  LogWriter(LogWriter&&) noexcept = default;
  LogWriter& operator=(LogWriter&&) = delete;
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  // Waits up to a second for the queued lines. A thread that is still blocked in a write is
  // detached.
  ~LogWriter();

  // Appends a newline. Never blocks, callable from any thread.
  void write(std::string line);
  // Opens the file again before the next line, after a log rotation. If that fails, the old file
  // stays in use.
  void reopen();

  const std::string& name() const;
  std::uint64_t num_dropped() const;

 private:
  struct State;

  explicit LogWriter(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive the writer
};

}  // namespace graft::server
