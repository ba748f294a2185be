// What a server process uses, read from /proc, and how fast it answers /health.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace graft::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// 0 for an empty list.
double quantile(std::vector<double> values, double share);

struct ProcessUse {
  double resident_mib = 0;
  std::int64_t num_threads = 0;
  std::int64_t num_files = 0;
  double cpu_seconds = 0;
};

// All zeros when the process does not exist.
ProcessUse use_of(pid_t pid);

// Samples a server every 100 ms on a thread of its own: its memory and the latency of /health.
class Watch {
 public:
  Watch(pid_t pid, std::uint16_t port);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  struct Result {
    double peak_resident_mib = 0;
    double mean_resident_mib = 0;
    std::int64_t max_threads = 0;
    std::int64_t max_files = 0;
    std::vector<double> health_seconds = {};
    std::int64_t num_health_failures = 0;
  };

  // Since the start or the last call.
  Result take();

 private:
  void run();
  void probe();

  const pid_t pid_;
  const std::uint16_t port_;
  std::mutex mutex_;
  Result result_;
  double sum_resident_mib_ = 0;
  std::int64_t num_samples_ = 0;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

}  // namespace graft::bench
