// Everything a request handler needs: models, access control, metrics, worker threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graft/base/text/json.h"
#include "graft/server/access/access.h"
#include "graft/server/clients/client_meter.h"
#include "graft/server/generation/generation.h"
#include "graft/server/http/exchange.h"
#include "graft/server/http/worker_pool.h"
#include "graft/server/images/image_fetcher.h"
#include "graft/server/metrics/metrics.h"
#include "graft/server/models/loaded_model.h"
#include "graft/server/models/model_pool.h"
#include "graft/server/sequences/running.h"

namespace graft::server {

struct HandlerContext {
  ModelPool& models;
  const Access& access;
  Metrics& metrics;
  ClientMeter& clients;
  http::WorkerPool& response_workers;  // for building responses
  std::int64_t max_waiting = 0;        // queued sequences per model, beyond those that run
  RequestLimits limits = {};
  std::size_t max_queued_bytes = 0;  // GenerationContext::max_queued_bytes
  api::Pooling pooling = api::Pooling::Mean;
  RunningGenerations& running;
  std::filesystem::path snapshot_dir = {};  // of saved sequences; empty: none are saved
  ImageFetcher* images = nullptr;           // null: URLs of images are not fetched

  GenerationContext generation() const {
    return {.metrics = metrics,
            .clients = clients,
            .workers = response_workers,
            .max_waiting = max_waiting,
            .limits = limits,
            .max_queued_bytes = max_queued_bytes,
            .running = running};
  }

  // Throws ApiError 403 for a priority other than 0 without an admin key.
  void check_priority(const http::Request& request, std::int64_t priority) const;

  // Calls `work` with the model: immediately when it is loaded, otherwise later on another thread.
  // An exception from `work` becomes the error response.
  void with_model(const http::ExchangePtr& exchange,
                  const std::string& model,
                  std::function<void(Lease lease)> work,
                  std::optional<double> keep_alive_seconds = {}) const;

  // Replaces the URLs of images in the messages, on another thread, then calls `work` there; at
  // once where there are none or the model reads no images. `work` keeps the messages alive.
  void with_images(const http::ExchangePtr& exchange,
                   OrderedJson& messages,
                   LoadedModel& model,
                   std::function<void()> work) const;

  // with_model() for a request with a conversation, whose images are fetched: calls work(request,
  // lease).
  template <class Request, class Work>
  void with_conversation(const http::ExchangePtr& exchange, Request request, Work work) const {
    const std::string model = request.model;
    auto shared = std::make_shared<Request>(std::move(request));
    with_model(exchange, model, [this, exchange, shared, work](Lease lease) {
      LoadedModel& loaded = *lease;
      with_images(exchange, shared->conversation.messages, loaded,
                  [shared, work, lease = std::move(lease)] { work(*shared, lease); });
    });
  }
};

}  // namespace graft::server
