#include "graft/server/service.h"

#include <atomic>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

#include "graft/base/error.h"
#include "graft/server/access/access_log.h"
#include "graft/server/admin.h"
#include "graft/server/api_error.h"
#include "graft/server/backend.h"
#include "graft/server/http/server.h"
#include "graft/server/http/workers.h"
#include "graft/server/metrics.h"
#include "graft/server/ollama/handlers.h"
#include "graft/server/openai/handlers.h"
#include "graft/server/router.h"
#include "graft/server/static_files.h"

namespace graft::server {
namespace {

// Every connection is a file; systems give few until asked for more.
void raise_file_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void preload(ModelPool& models, Readiness& readiness) {
  models.acquire(
      "", [&readiness](const Lease&) { readiness.is_loaded = true; },
      [](const std::string& message) { fmt::print(stderr, "graft: warning: {}\n", message); });
}

}  // namespace

void serve(const ServiceConfig& config, const std::function<void(std::uint16_t port)>& listening) {
  raise_file_limit();
  const Access access(config.access);
  AccessLog log(config.access_log);
  Metrics metrics;
  Readiness readiness;
  std::atomic<bool> is_stopping = false;
  // The server goes last: what the models still say on their way out is said to it.
  http::Server server(config.http);
  Router router;
  http::Workers slow_workers(2);
  ModelPool models(config.pool, [&server](std::function<void()> task) {
    server.post_to_workers(std::move(task));
  });
  const HandlerContext backend = {.models = models,
                                  .access = access,
                                  .metrics = metrics,
                                  .slow_workers = slow_workers,
                                  .is_stopping = is_stopping,
                                  .max_waiting = config.max_waiting,
                                  .pooling = config.pooling};
  openai::add_routes(router, backend);
  ollama::add_routes(router, backend);
  add_ops_routes(router, backend, readiness);
  add_static_routes(router);
  if (config.preload) {
    preload(models, readiness);
  } else {
    readiness.is_loaded = true;
  }

  listening(server.port());
  server.run(
      {.handler = [&router](const http::ExchangePtr& exchange) { router.handle(exchange); },
       .gate = [&access](const http::Request& request) { return access.gate(request); },
       .headers = [&access](const http::Request& request) { return access.headers(request); },
       .refusal =
           [](int status, const std::string& message) {
             ApiError error(status, str("the request: ", message));
             if (status == 503) error.retry_after_seconds = 1;
             return error_response(error, {});
           },
       .on_drain = [&readiness] { readiness.is_draining = true; },
       .log = [&log](const http::Record& record) { log.write(record); }});
  is_stopping = true;
  slow_workers.stop();
}

}  // namespace graft::server
