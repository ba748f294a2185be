// Paths for those who run the server: /health, /ready, /metrics, /v1/plan.

#pragma once

#include <atomic>

#include "graft/server/backend.h"
#include "graft/server/router.h"

namespace graft::server {

// Requests that come while the first model is being loaded wait for it; who spreads load should
// send them elsewhere. Draining: no new work is taken.
struct Readiness {
  std::atomic<bool> is_loaded = false;
  std::atomic<bool> is_draining = false;
};

// Both must outlive the router.
void add_ops_routes(Router& router, const HandlerContext& backend, const Readiness& readiness);

}  // namespace graft::server
