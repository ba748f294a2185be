#include "graft/server/handler_context.h"

#include <utility>

#include "graft/server/api_error.h"
#include "graft/server/router.h"

namespace graft::server {

void HandlerContext::with_model(const http::ExchangePtr& exchange,
                                const std::string& model,
                                std::function<void(Lease lease)> work,
                                std::optional<double> keep_alive_seconds) const {
  models.acquire(
      model,
      [exchange, work = std::move(work)](Lease lease) {
        with_error_response(exchange, [&] { work(std::move(lease)); });
      },
      [exchange](const std::string& message) {
        exchange->log_field("error", message);
        exchange->respond(error_response({500, message, "model"}, exchange->request().path));
      },
      keep_alive_seconds);
}

}  // namespace graft::server
