// The complete server: HTTP, the OpenAI, Anthropic and Ollama APIs, admin routes, web pages and
// models.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/hub/environment.h"
#include "graft/server/access/access.h"
#include "graft/server/clients/client_limits.h"
#include "graft/server/generation/request_limits.h"
#include "graft/server/http/config.h"
#include "graft/server/logs/logs.h"
#include "graft/server/models/model_pool.h"
#include "graft/server/openai/responses/store.h"

namespace graft::server {

struct ServiceConfig {
  http::Config http = {};
  AccessConfig access = {};
  LimitTable client_limits = LimitTable();
  // For a reload (SIGHUP); they throw Error.
  std::function<ApiKeys()> read_keys = {};
  std::function<LimitTable(const ApiKeys& keys)> read_limits = {};
  PoolConfig pool = {};
  std::int64_t max_waiting = 16384;  // queued sequences per model; beyond that 429
  RequestLimits limits = {};
  openai::responses::StoreLimits response_store = {};
  api::Pooling pooling = api::Pooling::Mean;
  hub::Environment hub = {};                  // for models that are pulled, created and deleted
  std::filesystem::path snapshot_dir = {};    // of saved sequences; empty: none are saved
  std::vector<std::string> image_hosts = {};  // ImageFetcher; empty: no URL of an image is fetched
  bool preload = true;                        // load the first model at startup
};

// Serves until SIGTERM or SIGINT. Calls `listening` with the port once clients can connect. Throws
// Error.
void serve(const ServiceConfig& config,
           Logs& logs,
           const std::function<void(std::uint16_t port)>& listening);

}  // namespace graft::server
