#include "graft/server/admin.h"

#include <cstdint>
#include <numeric>

#include "graft/plan/report.h"
#include "graft/server/api_error.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

http::Response metrics(const HandlerContext& context, const Logs& logs) {
  std::vector<ModelGauges> gauges;
  for (const ModelPool::Loaded& loaded : context.models.loaded())
    gauges.push_back({.model = loaded.lease->name(), .stats = loaded.lease->llm().stats()});
  return {
      .body = context.metrics.text(gauges) + context.clients.metrics_text() + logs.metrics_text(),
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
  if (readiness.is_draining)
    return error_response({503, "the server is shutting down"}, request.path);
  if (!readiness.is_loaded) return error_response({503, "the model is loading"}, request.path);
  return {.body = R"({"status":"ready"})"};
}

}  // namespace

void add_admin_routes(Router& router,
                      const HandlerContext& context,
                      const Readiness& readiness,
                      const Logs& logs) {
  for (const char* path : {"/health", "/v1/health"})
    router.add_immediate("GET", path, [](const http::Request&) { return health(); });
  router.add_immediate("GET", "/ready", [&readiness](const http::Request& request) {
    return ready(request, readiness);
  });
  router.add_immediate("GET", "/metrics",
                       [&context, &logs](const http::Request&) { return metrics(context, logs); });
  router.add_sync("GET", "/v1/plan", [&context](const http::Request&) { return plan(context); });
}

}  // namespace graft::server
