#include "graft/server/admin.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/plan/report.h"
#include "graft/server/api_error.h"
#include "graft/server/json_text.h"
#include "graft/server/metrics/process_metrics.h"
#include "graft/server/time_text.h"

namespace graft::server {
namespace {

std::vector<ModelGauges> gauges_of(const ModelPool& models) {
  std::vector<ModelGauges> gauges;
  for (const ModelPool::Loaded& loaded : models.loaded()) {
    LoadedModel& model = *loaded.lease;
    gauges.push_back({.model = model.name(),
                      .serial = model.serial(),
                      .stats = model.llm().stats(),
                      .memory = model.llm().memory_use(),
                      .block_tokens = model.llm().config().kvcache_block_size,
                      .cache_form = model.llm().cache_form(),
                      .load_seconds = model.load_seconds()});
  }
  return gauges;
}

http::Response metrics(const HandlerContext& context, const MetricsText& more_metrics) {
  return {.body = context.metrics.text(gauges_of(context.models)) + context.clients.metrics_text() +
                  more_metrics(),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

// Adds the number of calls and the total seconds of each module; only with --profile.
void add_times(Json& placements, api::LLM& llm) {
  const auto times = llm.profile();
  for (Json& placement : placements) {
    const auto found = times.find(placement["module"].get<std::string>());
    if (found == times.end()) continue;
    placement["calls"] = found->second.calls;
    placement["seconds"] = found->second.seconds;
  }
}

// Adds how often the experts in host memory were used, and where.
void add_expert_usage(Json& placements, api::LLM& llm) {
  const auto usage = llm.expert_usage();
  for (Json& placement : placements) {
    const auto found = usage.find(placement["module"].get<std::string>());
    if (found == usage.end()) continue;
    const ops::ExpertUsage& used = found->second;
    placement["expert_usage"] = {
        {"pairs", std::accumulate(used.pairs.begin(), used.pairs.end(), std::uint64_t{0})},
        {"resident", used.resident},
        {"resident_pairs", used.resident_pairs},
        {"streamed_bytes", used.streamed_bytes}};
  }
}

// The plan (module -> operator and device) of every loaded model.
http::Response plan(const HandlerContext& context) {
  Json list = Json::array();
  for (const ModelPool::Loaded& loaded : context.models.loaded()) {
    Json json = plan::plan_json(loaded.lease->llm().plan());
    json["name"] = loaded.lease->name();
    add_times(json["placements"], loaded.lease->llm());
    add_expert_usage(json["placements"], loaded.lease->llm());
    list.push_back(std::move(json));
  }
  return {.body = json_text({{"models", list}})};
}

http::Response health() {
  return {.body = R"({"status":"ok"})"};
}

http::Response ready(const http::Request& request, const Readiness& readiness) {
  const std::string reason = readiness.reason();
  if (!reason.empty()) return error_response({503, reason}, request.path);
  return {.body = R"({"status":"ready"})"};
}

}  // namespace

std::string Readiness::reason() const {
  if (is_draining_) return "the server is shutting down";
  const std::lock_guard lock(mutex_);
  if (is_loaded_) return {};
  return failure_.empty() ? "the model is loading" : str("the model cannot be loaded: ", failure_);
}

bool Readiness::is_loaded() const {
  const std::lock_guard lock(mutex_);
  return is_loaded_;
}

bool Readiness::should_retry(double seconds) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (is_loaded_ || failure_.empty() || now - failed_at_ < std::chrono::duration<double>(seconds))
    return false;
  failed_at_ = now;
  return true;
}

void Readiness::set(const std::string& failure, bool is_loaded) {
  const std::lock_guard lock(mutex_);
  is_loaded_ = is_loaded;
  failure_ = failure;
  failed_at_ = Clock::now();
}

HistorySample read_history_sample(const HandlerContext& context) {
  return {.at = unix_now(),
          .totals = context.metrics.totals(gauges_of(context.models)),
          .resident_bytes = resident_bytes()};
}

void add_history_route(Router& router, const MetricHistory& history) {
  router.add_sync("GET", "/v1/history", [&history](const http::Request&) {
    return http::Response{.body = history.json()};
  });
}

void add_admin_routes(Router& router,
                      const HandlerContext& context,
                      const Readiness& readiness,
                      const std::function<void()>& on_ready_asked,
                      const MetricsText& more_metrics) {
  for (const char* path : {"/health", "/v1/health"})
    router.add_immediate("GET", path, [](const http::Request&) { return health(); });
  router.add_immediate("GET", "/ready", [&readiness, on_ready_asked](const http::Request& request) {
    on_ready_asked();
    return ready(request, readiness);
  });
  router.add_immediate("GET", "/metrics", [&context, more_metrics](const http::Request&) {
    return metrics(context, more_metrics);
  });
  router.add_sync("GET", "/v1/plan", [&context](const http::Request&) { return plan(context); });
}

}  // namespace graft::server
