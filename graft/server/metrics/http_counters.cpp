#include "graft/server/metrics/http_counters.h"

#include "graft/server/metrics/prometheus.h"

namespace graft::server {

void HttpCounters::count(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++counts_[{route, status}];
}

std::string HttpCounters::metrics_text() const {
  std::string out;
  MetricWriter metrics(out);
  metrics.begin("graft:http_requests_total", "counter",
                "HTTP requests by path and status; 499: the client disconnected.");
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : counts_) {
    metrics.add({{"path", key.first}, {"status", std::to_string(key.second)}},
                static_cast<double>(count));
  }
  return out;
}

}  // namespace graft::server
