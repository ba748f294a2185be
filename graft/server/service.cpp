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
#include "graft/server/handler_context.h"
#include "graft/server/http/server.h"
#include "graft/server/http/worker_pool.h"
#include "graft/server/metrics.h"
#include "graft/server/ollama/handlers.h"
#include "graft/server/openai/handlers.h"
#include "graft/server/router.h"
#include "graft/server/static_files.h"

namespace graft::server {
namespace {

// Raises the soft limit of open files to the hard limit: every connection is a file descriptor.
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
  // Declared first, destroyed last: models post their last updates to it while they stop.
  http::Server server(config.http);
  Router router;
  http::WorkerPool blocking_workers(2);
  ModelPool models(config.pool, [&server](std::function<void()> task) {
    server.post_to_workers(std::move(task));
  });
  const HandlerContext context = {.models = models,
                                  .access = access,
                                  .metrics = metrics,
                                  .blocking_workers = blocking_workers,
                                  .is_stopping = is_stopping,
                                  .max_waiting = config.max_waiting,
                                  .pooling = config.pooling};
  openai::add_routes(router, context);
  ollama::add_routes(router, context);
  add_admin_routes(router, context, readiness);
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
       .error_response =
           [](int status, const std::string& message) {
             ApiError error(status, str("invalid request: ", message));
             if (status == 503) error.retry_after_seconds = 1;
             return error_response(error, {});
           },
       .on_drain = [&readiness] { readiness.is_draining = true; },
       .log = [&log](const http::LogRecord& record) { log.write(record); }});
  is_stopping = true;
  blocking_workers.stop();
}

}  // namespace graft::server
