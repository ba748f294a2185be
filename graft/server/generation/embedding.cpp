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

void truncate_dimensions(std::vector<float>& vector, std::int64_t dimensions) {
  if (dimensions == 0) return;
  if (dimensions > static_cast<std::int64_t>(vector.size())) {
    throw ApiError(400, str("dimensions: must be at most ", vector.size(), ", got ", dimensions),
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

void check_lengths(const LoadedModel& model, std::int64_t max_model_len, EmbeddingInput& input) {
  const auto max_tokens = static_cast<std::size_t>(max_model_len - 1);
  for (std::vector<api::TokenId>& text : input.texts) {
    if (text.empty()) throw ApiError(400, "input: a text is empty", "input");
    if (text.size() <= max_tokens) continue;
    if (!input.truncate) {
      throw ApiError(400,
                     str("input: a text has ", text.size(), " tokens, max for ", model.name(),
                         " is ", max_tokens),
                     "input", "context_length_exceeded");
    }
    text.resize(max_tokens);
  }
}

// Checks `is_cancelled` between texts.
EmbeddingResult embed(LoadedModel& model,
                      const EmbeddingInput& input,
                      api::Pooling pooling,
                      const std::function<bool()>& is_cancelled) {
  EmbeddingResult out;
  for (const std::vector<api::TokenId>& text : input.texts) {
    if (is_cancelled()) break;
    out.vectors.push_back(model.llm().embed(text, pooling));
    truncate_dimensions(out.vectors.back(), input.dimensions);
    out.num_tokens += static_cast<std::int64_t>(text.size());
  }
  return out;
}

}  // namespace

void embed_async(const HandlerContext& context,
                 const http::ExchangePtr& exchange,
                 const Lease& lease,
                 EmbeddingInput input,
                 std::function<void(const EmbeddingResult& embedded)> done) {
  check_lengths(*lease, lease->llm().config().max_model_len, input);
  auto slot = lease->reserve_slots(1, context.max_waiting);
  const auto is_disconnected = std::make_shared<std::atomic<bool>>(false);
  exchange->on_disconnect([is_disconnected] { *is_disconnected = true; });
  context.blocking_workers.post([exchange, lease, input = std::move(input), done = std::move(done),
                                 is_disconnected, slot = std::move(slot), pooling = context.pooling,
                                 &is_stopping = context.is_stopping] {
    with_error_response(exchange, [&] {
      const EmbeddingResult embedded =
          embed(*lease, input, pooling, [&] { return *is_disconnected || is_stopping; });
      exchange->log_field("model", lease->name());
      exchange->log_field("prompt_tokens", embedded.num_tokens);
      done(embedded);
    });
  });
}

}  // namespace graft::server
