#include "graft/server/handler_context.h"

#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/router.h"

namespace graft::server {

void HandlerContext::check_priority(const http::Request& request, std::int64_t priority) const {
  if (priority == 0 || access.client_of(request).is_admin) return;
  throw ApiError(403,
                 str("priority: ", priority,
                     " needs an admin key, which has the word admin after it in the file of "
                     "--api-key-file; leave it out or send 0"),
                 "priority", "admin_key_required");
}

void HandlerContext::with_model(const http::ExchangePtr& exchange,
                                const std::string& model,
                                std::function<void(Lease lease)> work,
                                std::optional<double> keep_alive_seconds) const {
  const auto acquire = [&](ModelPool::Ready ready, ModelPool::Failed failed) {
    try {
      models.acquire(model, std::move(ready), std::move(failed), keep_alive_seconds);
    } catch (const ApiError& error) {
      if (error.status == 429)
        clients.count_rejected(access.client_of(exchange->request()), "loading");
      throw;
    }
  };
  acquire([exchange, work = std::move(work)](
              Lease lease) { with_error_response(exchange, [&] { work(std::move(lease)); }); },
          [exchange](const std::string& message) {
            exchange->log_field("error", message);
            exchange->respond(error_response({500, message, "model"}, exchange->request().path));
          });
}

void HandlerContext::with_images(const http::ExchangePtr& exchange,
                                 OrderedJson& messages,
                                 LoadedModel& model,
                                 std::function<void()> work) const {
  const bool can_fetch = images != nullptr && images->is_enabled() && model.llm().has_vision();
  if (!can_fetch || !has_image_urls(messages)) return work();
  images->post(exchange, access.client_of(exchange->request()).id,
               [fetcher = images, &messages, work = std::move(work)] {
                 fetcher->replace_urls(messages);
                 work();
               });
}

}  // namespace graft::server
