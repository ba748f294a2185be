// Readings of the metrics of the last hour, for the charts of the status page: they are complete
// when the page is opened. Counters are totals, as in /metrics; the reader takes differences.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace graft::server {

// Sums over all models.
struct MetricTotals {
  std::int64_t num_running = 0;
  std::int64_t num_waiting = 0;
  double kv_cache_usage = 0;  // of the fullest cache, 0 to 1
  std::int64_t num_output = 0;
  std::int64_t num_prompt = 0;
  std::int64_t num_queried = 0;  // tokens looked up in the prefix cache
  std::int64_t num_hits = 0;
  // Times to the first token: cumulative counts, one per bound and one for all.
  std::vector<std::uint64_t> first_tokens = {};
};

struct HistorySample {
  double at = 0;  // Unix time in seconds
  MetricTotals totals = {};
  std::uint64_t resident_bytes = 0;  // of the process
};

struct HistoryConfig {
  double interval_seconds = 5;
  std::size_t capacity = 720;  // samples: one hour
};

class MetricHistory {
 public:
  using Read = std::function<HistorySample()>;

  // Calls `read` on its own thread, now and every interval.
  MetricHistory(const HistoryConfig& config, Read read);
  MetricHistory(const MetricHistory&) = delete;
  MetricHistory& operator=(const MetricHistory&) = delete;
  ~MetricHistory();

  // Oldest first.
  std::vector<HistorySample> samples() const;
  // The body of /v1/history; docs/server.md describes it.
  std::string json() const;

 private:
  void run();

  const HistoryConfig config_;
  const Read read_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::deque<HistorySample> samples_;
  std::thread thread_;
};

}  // namespace graft::server
