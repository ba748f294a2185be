#include "graft/server/process/exit_deadline.h"

#include <algorithm>

#include <unistd.h>

namespace graft::server {

ExitDeadline::~ExitDeadline() {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ExitDeadline::set(double seconds) {
  const auto time =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  {
    const std::lock_guard lock(mutex_);
    deadline_ = std::min(deadline_, Clock::now() + time);
    if (!thread_.joinable()) thread_ = std::thread([this] { wait(); });
  }
  changed_.notify_all();
}

void ExitDeadline::wait() {
  std::unique_lock lock(mutex_);
  while (!is_cancelled_) {
    if (Clock::now() >= deadline_) ::_exit(0);
    changed_.wait_until(lock, deadline_);
  }
}

}  // namespace graft::server
