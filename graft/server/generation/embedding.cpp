#include "graft/server/generation/embedding.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"
#include "graft/server/router.h"

namespace graft::server {
namespace {

void shorten(std::vector<float>& vector, std::int64_t dimensions) {
  if (dimensions == 0) return;
  if (dimensions > static_cast<std::int64_t>(vector.size())) {
    throw ApiError(400, str("dimensions: must be at most ", vector.size(), ", not ", dimensions),
                   "dimensions");
  }
  vector.resize(static_cast<std::size_t>(dimensions));
  double squares = 0;
  for (const float value : vector)
    squares += static_cast<double>(value) * static_cast<double>(value);
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (float& value : vector)
    value = static_cast<float>(value * scale);
}

void check_lengths(const LoadedModel& model, std::int64_t max_model_len, EmbedInput& input) {
  const auto most = static_cast<std::size_t>(max_model_len - 1);
  for (std::vector<api::TokenId>& text : input.texts) {
    if (text.empty()) throw ApiError(400, "input: a text is empty", "input");
    if (text.size() <= most) continue;
    if (!input.truncate) {
      throw ApiError(
          400, str("input: a text has ", text.size(), " tokens, ", model.name(), " takes ", most),
          "input", "context_length_exceeded");
    }
    text.resize(most);
  }
}

// Between texts it looks whether somebody still waits.
Embedded embed(LoadedModel& model,
               const EmbedInput& input,
               api::Pooling pooling,
               const std::function<bool()>& is_over) {
  Embedded out;
  for (const std::vector<api::TokenId>& text : input.texts) {
    if (is_over()) break;
    out.vectors.push_back(model.llm().embed(text, pooling));
    shorten(out.vectors.back(), input.dimensions);
    out.num_tokens += static_cast<std::int64_t>(text.size());
  }
  return out;
}

}  // namespace

void embed_later(const HandlerContext& backend,
                 const http::ExchangePtr& exchange,
                 const Lease& lease,
                 EmbedInput input,
                 std::function<void(const Embedded& embedded)> done) {
  check_lengths(*lease, lease->llm().config().max_model_len, input);
  auto place = lease->admit(1, backend.max_waiting);
  const auto is_gone = std::make_shared<std::atomic<bool>>(false);
  exchange->on_gone([is_gone] { *is_gone = true; });
  backend.slow_workers.post([exchange, lease, input = std::move(input), done = std::move(done),
                             is_gone, place = std::move(place), pooling = backend.pooling,
                             &is_stopping = backend.is_stopping] {
    answering(exchange, [&] {
      const Embedded embedded =
          embed(*lease, input, pooling, [&] { return *is_gone || is_stopping; });
      exchange->note("model", lease->name());
      exchange->note("prompt_tokens", embedded.num_tokens);
      done(embedded);
    });
  });
}

}  // namespace graft::server
