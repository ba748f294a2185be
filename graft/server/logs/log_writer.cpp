#include "graft/server/logs/log_writer.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "graft/base/error.h"

namespace graft::server {
namespace {

constexpr std::chrono::seconds kMaxFlushTime(1);
// Memory of a queued line besides its characters.
constexpr std::size_t kLineOverhead = 64;

int open_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

}  // namespace

struct LogWriter::State {
  State(int opened, std::string subject, bool is_path, OnProblem report, std::size_t max_bytes)
      : descriptor(opened),
        name(std::move(subject)),
        is_file(is_path),
        on_problem(std::move(report)),
        max_queued_bytes(max_bytes) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (is_file) ::close(descriptor);
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return is_stopping || wants_reopen || !lines.empty(); });
      const bool is_reopening = std::exchange(wants_reopen, false);
      if (!is_reopening && lines.empty()) break;
      std::string line;
      if (!lines.empty()) {
        line = std::move(lines.front());
        lines.pop_front();
        queued_bytes -= line.size() + kLineOverhead;
      }
      if (lines.empty()) is_full = false;
      lock.unlock();
      if (is_reopening) open_again();
      if (!line.empty()) write_line(line);
      lock.lock();
    }
    has_ended = true;
    ended.notify_all();
  }

  void open_again() {
    if (!is_file) return;
    const int opened = open_file(name);
    if (opened < 0) {
      report(str(name, ": cannot open again, the old file stays in use: ", std::strerror(errno)));
      return;
    }
    ::close(std::exchange(descriptor, opened));
    is_mid_line = false;
  }

  void write_line(std::string& line) {
    // After a line that was cut off, as by a full disk.
    if (is_mid_line) line.insert(line.begin(), '\n');
    const std::size_t num_written = write_bytes(line);
    if (num_written > 0) is_mid_line = num_written < line.size();
    if (num_written < line.size()) {
      const int error = errno;
      ++num_dropped;
      if (!std::exchange(is_failing, true))
        report(str(name, ": cannot write, lines are dropped: ", std::strerror(error)));
    } else if (std::exchange(is_failing, false)) {
      report(
          str(name, ": is written again, ", num_dropped.load(), " lines dropped since the start"));
    }
  }

  // The number of bytes written; less than all on an error.
  std::size_t write_bytes(const std::string& line) const {
    std::size_t at = 0;
    while (at < line.size()) {
      const ssize_t count = ::write(descriptor, line.data() + at, line.size() - at);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      at += static_cast<std::size_t>(count);
    }
    return at;
  }

  void report(const std::string& message) {
    const std::lock_guard lock(report_mutex);
    if (on_problem) on_problem(message);
  }

  // The writer is destroyed, and this thread is still blocked: what `on_problem` uses may not exist
  // any more.
  void abandon() {
    {
      const std::lock_guard lock(mutex);
      lines.clear();
    }
    const std::lock_guard lock(report_mutex);
    on_problem = nullptr;
  }

  // Only the thread uses these.
  int descriptor;
  bool is_mid_line = false;
  bool is_failing = false;

  const std::string name;
  const bool is_file;
  std::mutex report_mutex;  // guards on_problem
  OnProblem on_problem;
  const std::size_t max_queued_bytes;
  std::atomic<std::uint64_t> num_dropped = 0;

  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable ended;
  std::deque<std::string> lines;
  std::size_t queued_bytes = 0;
  bool is_full = false;  // a line was dropped; until the queue is empty, which limits the reports
  bool wants_reopen = false;
  bool is_stopping = false;
  bool has_ended = false;
  std::thread thread;
};

LogWriter LogWriter::to_file(const std::string& path,
                             OnProblem on_problem,
                             std::size_t max_queued_bytes) {
  const int descriptor = open_file(path);
  if (descriptor < 0) fail(path, ": cannot open for writing: ", std::strerror(errno));
  return LogWriter(
      std::make_shared<State>(descriptor, path, true, std::move(on_problem), max_queued_bytes));
}

LogWriter LogWriter::to_descriptor(int descriptor,
                                   const std::string& name,
                                   OnProblem on_problem,
                                   std::size_t max_queued_bytes) {
  return LogWriter(
      std::make_shared<State>(descriptor, name, false, std::move(on_problem), max_queued_bytes));
}

LogWriter::LogWriter(std::shared_ptr<State> state) : state_(std::move(state)) {
  state_->thread = std::thread([shared = state_] { shared->run(); });
}

LogWriter::~LogWriter() {
  if (!state_) return;  // moved from
  std::unique_lock lock(state_->mutex);
  state_->is_stopping = true;
  state_->wake.notify_all();
  const bool has_ended =
      state_->ended.wait_for(lock, kMaxFlushTime, [&] { return state_->has_ended; });
  lock.unlock();
  if (has_ended) {
    state_->thread.join();
  } else {
    state_->abandon();
    state_->thread.detach();
  }
}

void LogWriter::write(std::string line) {
  line += '\n';
  bool is_first_drop = false;
  {
    const std::lock_guard lock(state_->mutex);
    const std::size_t bytes = line.size() + kLineOverhead;
    if (state_->queued_bytes + bytes > state_->max_queued_bytes) {
      ++state_->num_dropped;
      is_first_drop = !std::exchange(state_->is_full, true);
    } else {
      state_->queued_bytes += bytes;
      state_->lines.push_back(std::move(line));
    }
  }
  state_->wake.notify_one();
  if (is_first_drop) {
    state_->report(str(state_->name, ": the reader is too slow, lines are dropped: max ",
                       state_->max_queued_bytes, " queued bytes"));
  }
}

void LogWriter::reopen() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->wants_reopen = true;
  }
  state_->wake.notify_one();
}

const std::string& LogWriter::name() const {
  return state_->name;
}

std::uint64_t LogWriter::num_dropped() const {
  return state_->num_dropped;
}

}  // namespace graft::server
