// Paths for those who run the server: /health, /ready, /metrics, /v1/plan.

#pragma once

#include <atomic>

#include "graft/server/backend.h"
#include "graft/server/router.h"

namespace graft::server {

// Both must outlive the router. Not ready: the server drains, and takes no new work.
void add_ops_routes(Router& router, const Backend& backend, const std::atomic<bool>& is_ready);

}  // namespace graft::server
