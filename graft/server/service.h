// The whole server: HTTP in front, the APIs, the models behind.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "graft/api/llm.h"
#include "graft/server/access/access.h"
#include "graft/server/http/config.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

struct ServiceConfig {
  http::Config http = {};
  AccessConfig access = {};
  PoolConfig pool = {};
  std::int64_t max_waiting = 2048;  // answers that wait for a seat, per model; more get 429
  std::string access_log = {};      // file, "-", or "" for none
  api::Pooling pooling = api::Pooling::Mean;
  bool preload = true;  // the first model, before anybody asks
};

// Runs until a signal says otherwise. `listening` is told the port as soon as clients can connect.
// Throws Error.
void serve(const ServiceConfig& config, const std::function<void(std::uint16_t port)>& listening);

}  // namespace graft::server
