#include "graft/server/logs/events.h"

#include <cmath>

#include <fmt/format.h>

namespace graft::server {
namespace {

double rounded(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

void log_unload(Logs& logs, const PoolEvent& event) {
  OrderedJson fields = {{"model", event.model}, {"reason", event.reason}};
  const std::string failure = event.loaded->llm().failure();
  if (failure.empty()) {
    logs.log(LogLevel::Info, "model_unloaded",
             fmt::format("unloaded {}: {}", event.model, event.reason), fields);
  } else {
    logs.log(LogLevel::Error, "model_failed", fmt::format("unloaded {}: {}", event.model, failure),
             fields);
  }
}

}  // namespace

void log_pool_event(Logs& logs, const PoolEvent& event) {
  OrderedJson fields = {{"model", event.model}};
  switch (event.kind) {
    case PoolEvent::Kind::Loading:
      logs.log(LogLevel::Info, "model_loading", fmt::format("loading {}", event.model), fields);
      break;
    case PoolEvent::Kind::Loaded:
      fields["seconds"] = rounded(event.seconds);
      logs.log(LogLevel::Info, "model_loaded",
               fmt::format("loaded {} in {:.2f} s", event.model, event.seconds), fields);
      break;
    case PoolEvent::Kind::LoadFailed:
      fields["seconds"] = rounded(event.seconds);
      logs.log(LogLevel::Error, "model_load_failed",
               fmt::format("cannot load {}: {}", event.model, event.reason), fields);
      break;
    case PoolEvent::Kind::Unloaded:
      log_unload(logs, event);
      break;
  }
}

void log_step(Logs& logs, const std::string& model, const api::StepInfo& step) {
  logs.log(LogLevel::Debug, "step",
           fmt::format("{}: step of {} tokens in {:.2f} ms, {} running, {} waiting", model,
                       step.num_tokens, step.seconds * 1e3, step.num_running, step.num_waiting),
           {{"model", model},
            {"tokens", step.num_tokens},
            {"output_tokens", step.num_output},
            {"running", step.num_running},
            {"waiting", step.num_waiting},
            {"seconds", rounded(step.seconds)}});
  if (step.num_preemptions == 0) return;
  logs.log(LogLevel::Debug, "preemption",
           fmt::format("{}: preempted {} sequences: slots or KV blocks are short", model,
                       step.num_preemptions),
           {{"model", model}, {"sequences", step.num_preemptions}});
}

}  // namespace graft::server
