// What handlers work with: the models, who may ask, what is measured.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "graft/server/access/access.h"
#include "graft/server/generation/generation.h"
#include "graft/server/http/exchange.h"
#include "graft/server/http/workers.h"
#include "graft/server/metrics.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

struct HandlerContext {
  ModelPool& models;
  const Access& access;
  Metrics& metrics;
  http::Workers& slow_workers;  // for what waits for a model's answer
  const std::atomic<bool>& is_stopping;
  std::int64_t max_waiting = 0;  // answers that wait for a seat, per model
  api::Pooling pooling = api::Pooling::Mean;

  GenerationContext generation() const { return {.metrics = metrics, .max_waiting = max_waiting}; }

  // Gives the model to `work`, here or later on another thread; what it throws is the answer.
  void with_model(const http::ExchangePtr& exchange,
                  const std::string& model,
                  std::function<void(Lease lease)> work,
                  std::optional<double> keep_alive_seconds = {}) const;
};

}  // namespace graft::server
