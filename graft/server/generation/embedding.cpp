#include "graft/server/generation/embedding.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/reservation.h"
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
  const auto max_tokens = static_cast<std::size_t>(
      std::min(max_model_len - 1, input.max_tokens.value_or(max_model_len)));
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

void check_response(LoadedModel& model, const EmbeddingInput& input, std::size_t max_bytes) {
  const std::int64_t hidden_size = model.llm().source().config().hidden_size;
  const std::int64_t dimensions =
      input.dimensions == 0 ? hidden_size : std::min(input.dimensions, hidden_size);
  const std::size_t bytes =
      input.texts.size() * static_cast<std::size_t>(dimensions) * input.bytes_per_value;
  if (bytes <= max_bytes) return;
  throw ApiError(
      400,
      str("input: ", input.texts.size(), " embeddings of ", dimensions, " dimensions need about ",
          bytes, " bytes, max ", max_bytes, " (--max-response-mib)"),
      "input", "response_too_large");
}

// The embeddings of one request; callbacks run on the engine's thread.
class EmbeddingJob : public std::enable_shared_from_this<EmbeddingJob> {
 public:
  using Done = std::function<void(const EmbeddingResult& embedded)>;

  EmbeddingJob(const HandlerContext& context,
               http::ExchangePtr exchange,
               Lease lease,
               std::int64_t dimensions,
               Done done)
      : context_(context),
        exchange_(std::move(exchange)),
        lease_(std::move(lease)),
        dimensions_(dimensions),
        done_(std::move(done)) {}
  EmbeddingJob(const EmbeddingJob&) = delete;
  EmbeddingJob& operator=(const EmbeddingJob&) = delete;
  ~EmbeddingJob() = default;

  void submit(std::vector<std::vector<api::TokenId>> texts) {
    num_left_ = texts.size();
    const Client client = context_.access.client_of(exchange_->request());
    ReservationSize size = {.num_sequences = static_cast<std::int64_t>(texts.size()),
                            .max_waiting = context_.max_waiting};
    for (const auto& text : texts)
      size.num_prompt_tokens += static_cast<std::int64_t>(text.size());
    reservation_ = reserve(*lease_, context_.clients, client, size);
    result_.vectors.resize(texts.size());
    const api::SubmitOptions options = {
        .client = client.id,
        .cache_salt = context_.access.cache_salt(exchange_->request()),
        .adapter = lease_.adapter};
    try {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto store = [self = shared_from_this(), i](const api::Update& update) {
          self->store(i, update);
        };
        requests_.push_back(
            lease_->llm().submit_embedding(std::move(texts[i]), context_.pooling, store, options));
      }
    } catch (...) {
      abort();
      throw;
    }
    exchange_->on_disconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->abort();
    });
    release_one();
  }

 private:
  void abort() {
    for (const api::RequestId request : requests_)
      lease_->llm().abort(request);
  }

  void store(std::size_t index, const api::Update& update) {
    if (update.finish->reason == api::FinishReason::Stop) {
      result_.vectors[index] = update.embedding;
      result_.num_tokens += update.num_prompt;
    } else {
      const bool is_abort = update.finish->reason == api::FinishReason::Abort;
      error_ = is_abort ? "the server is shutting down" : update.finish->message;
    }
    reservation_.use->dequeue(update.num_prompt);
    release_one();
  }

  // All texts and submit() itself must end: until then submit() may throw.
  void release_one() {
    if (num_left_.fetch_sub(1) != 0) return;
    reservation_.release();
    context_.response_workers.post([self = shared_from_this()] { self->finish(); });
  }

  void finish() {
    with_error_response(exchange_, [this] {
      exchange_->log_field("model", lease_.name());
      exchange_->log_field("prompt_tokens", result_.num_tokens);
      if (error_) throw Failure(*error_);
      context_.metrics.embedded(lease_->name(), static_cast<std::int64_t>(result_.vectors.size()),
                                result_.num_tokens);
      for (std::vector<float>& vector : result_.vectors)
        truncate_dimensions(vector, dimensions_);
      done_(result_);
    });
  }

  const HandlerContext& context_;
  const http::ExchangePtr exchange_;
  const Lease lease_;
  const std::int64_t dimensions_;
  const Done done_;
  Reservation reservation_;
  std::vector<api::RequestId> requests_;  // does not change after submit()
  std::atomic<std::size_t> num_left_ = 0;
  EmbeddingResult result_;            // written by the engine's thread, then by finish()
  std::optional<std::string> error_;  // likewise
};

}  // namespace

void check_num_texts(std::size_t num_texts, const RequestLimits& limits) {
  if (static_cast<std::int64_t>(num_texts) <= limits.max_answers) return;
  throw ApiError(
      400,
      str("input: ", num_texts, " texts, max per request ", limits.max_answers, " (--max-answers)"),
      "input", "too_many_answers");
}

void embed_async(const HandlerContext& context,
                 const http::ExchangePtr& exchange,
                 Lease lease,
                 EmbeddingInput input,
                 std::function<void(const EmbeddingResult& embedded)> done) {
  check_lengths(*lease, lease->llm().config().max_model_len, input);
  check_response(*lease, input, context.limits.max_response_bytes);
  std::make_shared<EmbeddingJob>(context, exchange, std::move(lease), input.dimensions,
                                 std::move(done))
      ->submit(std::move(input.texts));
}

}  // namespace graft::server
