#include "graft/server/service.h"

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <malloc.h>

#include "graft/base/error.h"
#include "graft/base/system/mapping_guard.h"
#include "graft/server/access/access_log.h"
#include "graft/server/adapters.h"
#include "graft/server/admin.h"
#include "graft/server/anthropic/handlers.h"
#include "graft/server/api_error.h"
#include "graft/server/clients/client_meter.h"
#include "graft/server/handler_context.h"
#include "graft/server/http/server.h"
#include "graft/server/http/worker_pool.h"
#include "graft/server/images/image_fetcher.h"
#include "graft/server/library/model_library.h"
#include "graft/server/llamacpp/handlers.h"
#include "graft/server/logs/events.h"
#include "graft/server/metrics/gpu_monitor.h"
#include "graft/server/metrics/history.h"
#include "graft/server/metrics/http_counters.h"
#include "graft/server/metrics/metrics.h"
#include "graft/server/metrics/process_metrics.h"
#include "graft/server/metrics/prometheus.h"
#include "graft/server/ollama/handlers.h"
#include "graft/server/ollama/library_handlers.h"
#include "graft/server/openai/handlers.h"
#include "graft/server/openai/responses/handlers.h"
#include "graft/server/process/exit_deadline.h"
#include "graft/server/process/limits.h"
#include "graft/server/process/systemd.h"
#include "graft/server/router.h"
#include "graft/server/sequences/handlers.h"
#include "graft/server/static_files.h"
#include "graft/server/time_text.h"

namespace graft::server {
namespace {

// Seconds between the end of the drain time and the forced end of the process.
constexpr double kExitSeconds = 1;

// Between two tries to load the first model.
constexpr double kRetrySeconds = 10;

http::Response draining_response(const http::Request& request) {
  ApiError error(503, "the server is shutting down");
  error.retry_after_seconds = 1;
  return error_response(error, request.path);
}

http::Response invalid_response(const http::Request& request,
                                int status,
                                const std::string& message) {
  ApiError error(status, str("invalid request: ", message));
  if (status == 503) error.retry_after_seconds = 1;
  return error_response(error, request.path);
}

http::Config checked(http::Config config, Logs& logs) {
  const auto warn = [&logs](const std::string& text) { logs.warn(text); };
  config.limits.max_connections = check_file_limit(config.limits.max_connections, warn);
  check_core_limit(warn);
  return config;
}

// glibc raises both thresholds to 32 and 64 MiB when a large block is freed, and then every thread
// keeps that much of the memory of a large request.
void return_freed_memory() {
  constexpr int kBytes = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kBytes);
  ::mallopt(M_TRIM_THRESHOLD, kBytes);
}

class Service {
 public:
  Service(const ServiceConfig& config, Logs& logs)
      : config_(config),
        logs_(logs),
        access_(config.access),
        clients_(config.client_limits),
        server_(checked(config.http, logs)),
        models_(pool_config(),
                [this](std::function<void()> task) { server_.post_to_workers(std::move(task)); }) {
    openai::add_routes(router_, context_);
    openai::responses::add_routes(router_, context_, config.response_store);
    anthropic::add_routes(router_, context_);
    ollama::add_routes(router_, context_);
    ollama::add_library_routes(router_, context_, library_);
    llamacpp::add_routes(router_, context_);
    sequences::add_routes(router_, context_);
    add_adapter_routes(router_, context_);
    add_admin_routes(
        router_, context_, readiness_, [this] { retry_preload(); },
        [this] { return server_metrics(); });
    add_history_route(router_, history_);
    add_static_routes(router_);
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() = default;

  void run(const std::function<void(std::uint16_t port)>& listening) {
    if (config_.preload) {
      preload();
    } else {
      readiness_.set_loaded();
    }
    listening(server_.port());
    systemd_.ready();
    server_.run(hooks());
    images_.stop();
    response_workers_.stop();
  }

 private:
  PoolConfig pool_config() {
    PoolConfig pool = config_.pool;
    pool.on_event = [this](const PoolEvent& event) { on_pool_event(event); };
    if (logs_.writes(LogLevel::Debug)) {
      pool.on_step = [this](const std::string& model, const api::StepInfo& step) {
        log_step(logs_, model, step);
      };
    }
    return pool;
  }

  // The result is an event of the pool.
  void preload() {
    models_.acquire(
        "", [](const Lease&) {}, [](const std::string&) {});
  }

  // While the first model cannot be loaded, a load balancer sends no request that would load it:
  // its probes of /ready do.
  void retry_preload() {
    if (!readiness_.should_retry(kRetrySeconds)) return;
    try {
      preload();
    } catch (const ApiError&) {  // NOLINT(bugprone-empty-catch)
      // Other requests wait for the model already.
    }
  }

  // On the thread that loads models.
  void on_pool_event(const PoolEvent& event) {
    log_pool_event(logs_, event);
    const bool is_first = event.model == config_.pool.models.front().name;
    switch (event.kind) {
      case PoolEvent::Kind::Loading:
        break;
      case PoolEvent::Kind::Loaded:
        metrics_.loaded(event.model, event.loaded->serial());
        if (is_first) readiness_.set_loaded();
        break;
      case PoolEvent::Kind::LoadFailed:
        metrics_.load_failed(event.model);
        if (is_first) on_first_failed(event);
        break;
      case PoolEvent::Kind::Unloaded:
        if (is_first && event.reason == "failed") on_first_failed(event);
        metrics_.unloaded(event.model, event.loaded->serial(), event.reason,
                          event.loaded->llm().stats());
        break;
    }
  }

  // A model that once was loaded and finds no memory beside other models now is no reason to send
  // all requests elsewhere. With --lazy the server does not depend on the first model.
  void on_first_failed(const PoolEvent& event) {
    const bool is_load = event.kind == PoolEvent::Kind::LoadFailed;
    if (!config_.preload || (event.is_out_of_memory && readiness_.is_loaded())) return;
    readiness_.set_failed(is_load ? event.reason : event.loaded->llm().failure());
  }

  // All metrics but those of models and clients. On the I/O thread.
  std::string server_metrics() const {
    std::string out;
    MetricWriter metrics(out);
    const http::ServerStats stats = server_.stats();
    metrics.add_single("graft:connections", "gauge", "Open connections.",
                       static_cast<double>(stats.num_connections));
    metrics.add_single("graft:connections_total", "counter", "Accepted connections.",
                       static_cast<double>(stats.num_accepted));
    return out + http_counters_.metrics_text() + logs_.metrics_text() + gpus_.metrics_text() +
           process_metrics() + build_metrics();
  }

  http::Hooks hooks() {
    return {
        .handler = [this](const http::ExchangePtr& exchange) { router_.handle(exchange); },
        .on_head = [this](http::Request& request) { access_.resolve_client(request); },
        .gate =
            [this](const http::Request& request, std::vector<http::Header>& headers) {
              return early_response(request, headers);
            },
        .client_of = [this](const http::Request& request) { return access_.client_of(request).id; },
        .headers = [this](const http::Request& request) { return response_headers(request); },
        .error_response = invalid_response,
        .on_drain = [this](double max_seconds) { drain(max_seconds); },
        .on_reload = [this] { reload(); },
        .heartbeat = [this] { systemd_.watchdog(); },
        .heartbeat_seconds = systemd_.watchdog_seconds(),
        .log = [this](const http::LogRecord& record) { on_request_end(record); }};
  }

  std::vector<http::Header> response_headers(const http::Request& request) const {
    std::vector<http::Header> headers = access_.headers(request);
    std::string trace = traceparent_of(request);
    if (!trace.empty()) headers.push_back({.name = "traceparent", .value = std::move(trace)});
    // The name that Anthropic's clients read.
    if (is_anthropic(request.path)) headers.push_back({.name = "request-id", .value = request.id});
    return headers;
  }

  void on_request_end(const http::LogRecord& record) {
    http_counters_.count(router_.route_of(*record.request), record.status);
    if (logs_.has_access_log()) logs_.write_access(log_line(record, unix_now()));
  }

  std::optional<http::Response> early_response(const http::Request& request,
                                               std::vector<http::Header>& headers) {
    if (auto response = access_.gate(request)) return response;
    if (auto response = router_.respond_now(request)) return response;
    if (readiness_.is_draining()) return draining_response(request);
    return limit_response(request, headers);
  }

  // Only POST requests make a model work.
  std::optional<http::Response> limit_response(const http::Request& request,
                                               std::vector<http::Header>& headers) {
    if (request.method != "POST") return std::nullopt;
    ClientMeter::Admission admission = clients_.admit(access_.client_of(request));
    for (http::Header& header : admission.headers)
      headers.push_back(std::move(header));
    if (!admission.error) return std::nullopt;
    return error_response(*admission.error, request.path);
  }

  void drain(double max_seconds) {
    readiness_.set_draining();
    library_.pulls().stop();
    deadline_.set(max_seconds + kExitSeconds);
    systemd_.stopping();
  }

  // Reads keys, limits and certificate again and opens the logs again. What fails is reported and
  // stays as it is.
  void reload() {
    systemd_.reloading();
    const auto attempt = [this](const std::function<void()>& work) {
      try {
        work();
      } catch (const Error& error) {
        logs_.warn(str("reload: ", error.what(), "; the old one stays in use"));
      }
    };
    logs_.reopen();
    attempt([this] { server_.reload_certificate(); });
    if (config_.read_keys) attempt([this] { access_.set_keys(config_.read_keys()); });
    if (config_.read_limits)
      attempt([this] { clients_.set_limits(config_.read_limits(*access_.keys())); });
    logs_.log(LogLevel::Info, "reload",
              "SIGHUP: read keys, limits and certificate, opened the logs again");
    systemd_.ready();
  }

  const ServiceConfig& config_;
  Logs& logs_;
  ExitDeadline deadline_;  // destroyed late: it also limits the time of the other destructors
  const Systemd systemd_;
  Access access_;
  Metrics metrics_;
  ClientMeter clients_;
  HttpCounters http_counters_;
  const GpuMonitor gpus_;
  Readiness readiness_;
  RunningGenerations running_;  // destroyed after the generations
  // Destroyed after the models, which post their last updates to it while they stop.
  http::Server server_;
  Router router_;
  http::WorkerPool response_workers_{2};
  ModelPool models_;
  ModelLibrary library_{config_.hub, models_};
  ImageFetcher images_{config_.image_hosts};
  const HandlerContext context_ = {.models = models_,
                                   .access = access_,
                                   .metrics = metrics_,
                                   .clients = clients_,
                                   .response_workers = response_workers_,
                                   .max_waiting = config_.max_waiting,
                                   .limits = config_.limits,
                                   .max_queued_bytes = config_.http.limits.max_buffered_bytes,
                                   .pooling = config_.pooling,
                                   .running = running_,
                                   .snapshot_dir = config_.snapshot_dir,
                                   .images = &images_};
  const MetricHistory history_{HistoryConfig(), [this] { return read_history_sample(context_); }};
};

}  // namespace

void serve(const ServiceConfig& config,
           Logs& logs,
           const std::function<void(std::uint16_t port)>& listening) {
  std::signal(SIGUSR1, SIG_IGN);
  return_freed_memory();
  install_mapping_guard();
  Service(config, logs).run(listening);
}

}  // namespace graft::server
