#include "graft/server/local/local_api.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/access/access.h"
#include "graft/server/clients/client_meter.h"
#include "graft/server/handler_context.h"
#include "graft/server/http/exchange.h"
#include "graft/server/http/worker_pool.h"
#include "graft/server/metrics/metrics.h"
#include "graft/server/openai/handlers.h"
#include "graft/server/openai/responses/handlers.h"
#include "graft/server/router.h"

namespace graft::server {
namespace {

// More than any file has lines, and far from the limit of additions.
constexpr std::int64_t kUnlimited = std::int64_t{1} << 40U;

// Collects the response.
class LocalExchange final : public http::Exchange {
 public:
  LocalExchange(http::Request request, LocalApi::Done done)
      : request_(std::move(request)), done_(std::move(done)) {}

  const http::Request& request() const override { return request_; }
  std::string take_body() override { return std::move(request_.body); }
  void respond(http::Response response) override {
    response_ = std::move(response);
    end();
  }
  void start_stream(http::StreamHead head) override { response_.content_type = head.content_type; }
  void write(std::string_view bytes) override { response_.body += bytes; }
  void end() override {
    if (done_) std::exchange(done_, nullptr)(response_);
  }
  bool when_writable(Task /*task*/) override { return false; }
  void on_disconnect(Task /*task*/) override {}  // there is no connection
  void log_field(const std::string& /*name*/, Json /*value*/) override {}

 private:
  http::Request request_;
  LocalApi::Done done_;
  http::Response response_;
};

}  // namespace

struct LocalApi::State {
  explicit State(PoolConfig config)
      : models(std::move(config),
               [this](std::function<void()> task) { workers.post(std::move(task)); }) {
    openai::add_routes(router, context);
    openai::responses::add_routes(router, context, {.max_bytes = 0});
  }

  // Waits for the model. Throws Error when it cannot be loaded.
  void load() {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::string> failure;
    const auto notify = [&](const std::function<void()>& set) {
      const std::lock_guard lock(mutex);
      set();
      changed.notify_all();
    };
    models.acquire(
        "", [&](Lease loaded) { notify([&] { lease = std::move(loaded); }); },
        [&](const std::string& message) { notify([&] { failure = message; }); });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return lease != nullptr || failure; });
    if (failure) fail(*failure);
  }

  Access access{AccessConfig()};
  Metrics metrics;
  ClientMeter clients{
      LimitTable({.concurrent_answers = std::nullopt, .queued_tokens = std::nullopt})};
  http::WorkerPool workers{1};
  Router router;
  http::WorkerPool response_workers{2};
  RunningGenerations running;  // destroyed after the generations
  // Posts its last updates to the workers while it is destroyed.
  ModelPool models;
  const HandlerContext context = {
      .models = models,
      .access = access,
      .metrics = metrics,
      .clients = clients,
      .response_workers = response_workers,
      .max_waiting = kUnlimited,
      .limits = {.max_answers = kUnlimited,
                 .max_output_tokens = kUnlimited,
                 .max_response_bytes = std::numeric_limits<std::int32_t>::max()},
      .max_queued_bytes = std::size_t{4} << 20U,
      .running = running};
  Lease lease;
};

LocalApi::LocalApi(PoolConfig pool) {
  pool.keep_alive_seconds = -1;
  pool.max_loaded = 1;
  state_ = std::make_unique<State>(std::move(pool));
  state_->load();
}

LocalApi::~LocalApi() {
  state_->response_workers.stop();
}

const std::vector<std::string_view>& LocalApi::paths() {
  static const std::vector<std::string_view> paths = {"/v1/chat/completions", "/v1/completions",
                                                      "/v1/responses",        "/v1/embeddings",
                                                      "/v1/rerank",           "/v1/score"};
  return paths;
}

LoadedModel& LocalApi::model() const {
  return *state_->lease;
}

void LocalApi::post(const std::string& path, std::string body, Done done) {
  state_->router.handle(std::make_shared<LocalExchange>(
      http::Request{.method = "POST", .path = path, .body = std::move(body), .remote = "127.0.0.1"},
      std::move(done)));
}

}  // namespace graft::server
