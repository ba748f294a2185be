// Routes for operators and monitoring: /health, /ready, /metrics, /v1/plan.

#pragma once

#include <atomic>

#include "graft/server/handler_context.h"
#include "graft/server/logs/logs.h"
#include "graft/server/router.h"

namespace graft::server {

// What /ready reports. Not ready while the first model loads (requests would wait for it) and
// while the server drains, so that a load balancer picks another instance.
struct Readiness {
  std::atomic<bool> is_loaded = false;
  std::atomic<bool> is_draining = false;
};

// `context`, `readiness` and `logs` must outlive the router.
void add_admin_routes(Router& router,
                      const HandlerContext& context,
                      const Readiness& readiness,
                      const Logs& logs);

}  // namespace graft::server
