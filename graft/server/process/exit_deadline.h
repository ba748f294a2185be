// Ends the process with exit code 0 when it has not ended by itself in time: a model that is
// loading and a running step cannot be interrupted.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace graft::server {

class ExitDeadline {
 public:
  ExitDeadline() = default;
  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;
  ~ExitDeadline();  // cancels

  // The process ends in `seconds` at the latest. An earlier deadline stays.
  void set(double seconds);

 private:
  using Clock = std::chrono::steady_clock;

  void wait();

  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool is_cancelled_ = false;
  std::thread thread_;
};

}  // namespace graft::server
