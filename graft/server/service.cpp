#include "graft/server/service.h"

#include <atomic>
#include <utility>

#include <sys/resource.h>

#include "graft/base/error.h"
#include "graft/server/access_log.h"
#include "graft/server/api_error.h"
#include "graft/server/backend.h"
#include "graft/server/http/server.h"
#include "graft/server/http/workers.h"
#include "graft/server/metrics.h"
#include "graft/server/ollama/handlers.h"
#include "graft/server/openai/handlers.h"
#include "graft/server/ops.h"
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

void preload(ModelPool& models) {
  models.acquire(
      "", [](const Lease&) {}, [](const std::string&) {});
}

}  // namespace

void serve(const ServiceConfig& config, const std::function<void(std::uint16_t port)>& listening) {
  raise_file_limit();
  const Access access(config.access);
  AccessLog log(config.access_log);
  Metrics metrics;
  std::atomic<bool> is_ready = true;
  std::atomic<bool> is_stopping = false;
  // The server goes last: what the models still say on their way out is said to it.
  http::Server server(config.http);
  Router router;
  http::Workers slow_workers(2);
  ModelPool models(config.pool, [&server](std::function<void()> task) {
    server.post_to_workers(std::move(task));
  });
  const Backend backend = {.models = models,
                           .access = access,
                           .metrics = metrics,
                           .slow_workers = slow_workers,
                           .is_stopping = is_stopping,
                           .max_waiting = config.max_waiting,
                           .pooling = config.pooling};
  openai::add_routes(router, backend);
  ollama::add_routes(router, backend);
  add_ops_routes(router, backend, is_ready);
  add_static_routes(router);
  if (config.preload) preload(models);

  listening(server.port());
  server.run(
      {.handler = [&router](const http::ExchangePtr& exchange) { router.handle(exchange); },
       .gate = [&access](const http::Request& request) { return access.gate(request); },
       .headers = [&access](const http::Request& request) { return access.headers(request); },
       .refusal =
           [](int status, const std::string& message) {
             return error_response({status, str("no valid HTTP request: ", message)}, {});
           },
       .on_drain = [&is_ready] { is_ready = false; },
       .log = [&log](const http::Record& record) { log.write(record); }});
  is_stopping = true;
  slow_workers.stop();
}

}  // namespace graft::server
