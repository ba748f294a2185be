#include "graft/server/metrics/history.h"

#include <chrono>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/json_text.h"
#include "graft/server/metrics/metrics.h"
#include "graft/server/time_text.h"

namespace graft::server {
namespace {

OrderedJson sample_json(const HistorySample& sample) {
  const MetricTotals& totals = sample.totals;
  return {{"at", sample.at},
          {"running", totals.num_running},
          {"waiting", totals.num_waiting},
          {"kv_cache_usage", totals.kv_cache_usage},
          {"output_tokens", totals.num_output},
          {"prompt_tokens", totals.num_prompt},
          {"queried_tokens", totals.num_queried},
          {"hit_tokens", totals.num_hits},
          {"first_tokens", totals.first_tokens},
          {"resident_bytes", sample.resident_bytes}};
}

}  // namespace

MetricHistory::MetricHistory(const HistoryConfig& config, Read read)
    : config_(config), read_(std::move(read)), thread_([this] { run(); }) {}

MetricHistory::~MetricHistory() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void MetricHistory::run() {
  const std::chrono::duration<double> interval(config_.interval_seconds);
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    lock.unlock();
    HistorySample sample = read_();
    lock.lock();
    samples_.push_back(std::move(sample));
    if (samples_.size() > config_.capacity) samples_.pop_front();
    wake_.wait_for(lock, interval, [this] { return is_stopping_; });
  }
}

std::vector<HistorySample> MetricHistory::samples() const {
  const std::lock_guard lock(mutex_);
  return {samples_.begin(), samples_.end()};
}

std::string MetricHistory::json() const {
  std::string list;
  for (const HistorySample& sample : samples())
    append_item(list, ordered_text(sample_json(sample)));
  JsonObjectText json({{"now", unix_now()},
                       {"interval_seconds", config_.interval_seconds},
                       {"first_token_bounds", first_token_bounds()}});
  json.add("samples", str("[", list, "]"));
  return json.take();
}

}  // namespace graft::server
