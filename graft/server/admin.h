// Routes for operators and monitoring: /health, /ready, /metrics, /v1/plan, /v1/history.

#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "graft/server/handler_context.h"
#include "graft/server/metrics/history.h"
#include "graft/server/router.h"

namespace graft::server {

// What /ready reports. Not ready while the first model loads (requests would wait for it), when it
// cannot be loaded or has failed since, and while the server drains, so that a load balancer picks
// another instance.
class Readiness {
 public:
  void set_loaded() { set({}, true); }
  void set_failed(const std::string& reason) { set(reason, false); }
  bool is_loaded() const;
  void set_draining() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }

  // Empty: ready.
  std::string reason() const;
  // True when loading has failed and was not tried again in the last `seconds`; then a new try
  // counts from now.
  bool should_retry(double seconds);

 private:
  using Clock = std::chrono::steady_clock;

  void set(const std::string& failure, bool is_loaded);

  std::atomic<bool> is_draining_ = false;
  mutable std::mutex mutex_;
  bool is_loaded_ = false;
  std::string failure_;  // why it cannot be used
  Clock::time_point failed_at_ = {};
};

HistorySample read_history_sample(const HandlerContext& context);

// `history` must outlive the router's requests.
void add_history_route(Router& router, const MetricHistory& history);

// Other sources of metrics than the models.
using MetricsText = std::function<std::string()>;

// `on_ready_asked` runs for every request of /ready. `context` and `readiness` must outlive the
// router.
void add_admin_routes(Router& router,
                      const HandlerContext& context,
                      const Readiness& readiness,
                      const std::function<void()>& on_ready_asked,
                      const MetricsText& more_metrics);

}  // namespace graft::server
