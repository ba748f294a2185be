#include "graft/server/generation/generation.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

using Clock = engine::Clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Everything but submit() and abort() runs on the server's I/O thread.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(http::ExchangePtr exchange,
             Lease lease,
             std::shared_ptr<void> slots,
             GenerationInput input,
             std::int64_t num_copies,
             std::unique_ptr<ResponseWriter> writer,
             Metrics& metrics)
      : exchange_(std::move(exchange)),
        lease_(std::move(lease)),
        slots_(std::move(slots)),
        input_(std::move(input)),
        num_copies_(num_copies),
        writer_(std::move(writer)),
        metrics_(metrics),
        num_left_(static_cast<std::int64_t>(input_.prompts.size()) * input_.params.n) {}
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation() = default;

  void submit() {
    try {
      for (std::size_t i = 0; i < input_.prompts.size(); ++i)
        requests_.push_back(submit(i));
    } catch (...) {
      abort();
      throw;
    }
    exchange_->on_disconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->abort();
    });
    exchange_->post([self = shared_from_this()] { self->begin(); });
  }

 private:
  api::RequestId submit(std::size_t prompt) {
    const auto forward = [self = shared_from_this(), prompt](const api::Update& update) {
      self->exchange_->post(
          [self, prompt, update, now = Clock::now()] { self->on_update(prompt, update, now); });
    };
    return lease_->llm().submit(input_.prompts[prompt], input_.params, forward, input_.options);
  }

  void abort() {
    for (const api::RequestId request : requests_)
      lease_->llm().abort(request);
  }

  // Runs once all prompts are submitted, when start_generation() can no longer throw.
  void begin() {
    has_begun_ = true;
    if (input_.is_stream) {
      exchange_->start_stream(std::move(input_.stream_head));
      exchange_->write(writer_->begin());
    }
    for (const EarlyUpdate& early : std::exchange(early_, {}))
      on_update(early.prompt, early.update, early.time);
  }

  void on_update(std::size_t prompt, const api::Update& update, Clock::time_point now) {
    if (!has_begun_) {
      early_.push_back({.prompt = prompt, .update = update, .time = now});
      return;
    }
    record_metrics(prompt, update, now);
    if (update.finish && update.finish->reason == api::FinishReason::Error) {
      error_ = update.finish->message;
    } else if (update.finish && update.finish->reason == api::FinishReason::Abort) {
      error_ = "the server is shutting down";
    } else {
      append(prompt, update);
    }
    if (update.finish && --num_left_ == 0) finish();
  }

  void append(std::size_t prompt, api::Update update) {
    std::string text = writer_->append(prompt, update);
    for (update.id.sample = 1; update.id.sample < num_copies_; ++update.id.sample)
      text += writer_->append(prompt, update);
    if (input_.is_stream) exchange_->write(text);
  }

  void record_metrics(std::size_t prompt, const api::Update& update, Clock::time_point now) {
    if (!update.tokens.empty()) record_tokens(prompt, update, now);
    if (update.finish) record_finish(update, now);
  }

  // Counts tokens with every update, so that the counters show the current throughput.
  void record_tokens(std::size_t prompt, const api::Update& update, Clock::time_point now) {
    std::optional<Clock::time_point>& last = last_token_[{prompt, update.id.sample}];
    if (last) {
      metrics_.next_token(lease_->name(), seconds_between(*last, now));
    } else {
      metrics_.first_token(lease_->name(), seconds_between(start_, now));
      if (update.id.sample == 0)
        metrics_.prompt(lease_->name(), update.num_prompt, update.num_cached);
    }
    last = now;
    metrics_.output(lease_->name(), update.tokens.size());
  }

  void record_finish(const api::Update& update, Clock::time_point now) {
    FinishedSequence finished = {.reason = to_string(update.finish->reason),
                                 .num_output = update.num_output,
                                 .total_seconds = seconds_between(start_, now)};
    const Clock::time_point scheduled = update.first_scheduled.value_or(now);
    finished.queue_seconds = seconds_between(update.arrived, scheduled);
    if (update.first_token) {
      finished.prefill_seconds = seconds_between(scheduled, *update.first_token);
      finished.decode_seconds = seconds_between(*update.first_token, now);
    }
    metrics_.finished(lease_->name(), finished);
    usage_.num_output += update.num_output * num_copies_;
    if (update.id.sample != 0) return;
    usage_.num_prompt += update.num_prompt;
    usage_.num_cached += update.num_cached;
    usage_.prefill_seconds = std::max(usage_.prefill_seconds, finished.prefill_seconds);
    usage_.decode_seconds = std::max(usage_.decode_seconds, finished.decode_seconds);
  }

  void finish() {
    usage_.total_seconds = seconds_between(start_, Clock::now());
    exchange_->log_field("model", lease_->name());
    exchange_->log_field("prompt_tokens", usage_.num_prompt);
    exchange_->log_field("cached_tokens", usage_.num_cached);
    exchange_->log_field("output_tokens", usage_.num_output);
    if (error_) exchange_->log_field("error", *error_);
    if (input_.is_stream) {
      exchange_->write(error_ ? writer_->error(*error_) : writer_->finish(usage_));
      exchange_->end();
    } else if (error_) {
      exchange_->respond(error_response({500, *error_}, exchange_->request().path));
    } else {
      exchange_->respond({.body = writer_->finish(usage_)});
    }
  }

  const http::ExchangePtr exchange_;
  const Lease lease_;
  const std::shared_ptr<void> slots_;
  GenerationInput input_;
  const std::int64_t num_copies_;  // copies of the one greedy sample; 1 when sampling
  const std::unique_ptr<ResponseWriter> writer_;
  Metrics& metrics_;
  const Clock::time_point start_ = Clock::now();
  std::int64_t num_left_;  // samples that have not finished
  // An update that arrived before all prompts were submitted.
  struct EarlyUpdate {
    std::size_t prompt = 0;
    api::Update update = {};
    Clock::time_point time = {};
  };
  std::vector<EarlyUpdate> early_;
  std::vector<api::RequestId> requests_;
  std::map<std::pair<std::size_t, std::int64_t>, std::optional<Clock::time_point>> last_token_;
  Usage usage_;
  std::optional<std::string> error_;
  bool has_begun_ = false;
};

}  // namespace

void start_generation(const http::ExchangePtr& exchange,
                      Lease lease,
                      GenerationInput input,
                      std::unique_ptr<ResponseWriter> writer,
                      const GenerationContext& context) {
  const std::int64_t max_model_len = lease->llm().config().max_model_len;
  for (const auto& prompt : input.prompts) {
    const auto length = static_cast<std::int64_t>(prompt.size());
    if (length >= max_model_len) {
      throw ApiError(400,
                     str("the prompt has ", length, " tokens, the max context length is ",
                         max_model_len, " tokens including the output"),
                     {}, "context_length_exceeded");
    }
  }
  // Greedy samples are identical: one is computed and copied.
  const bool is_greedy = input.params.is_greedy();
  const std::int64_t num_copies = is_greedy ? std::exchange(input.params.n, 1) : 1;
  const std::int64_t num_sequences =
      static_cast<std::int64_t>(input.prompts.size()) * input.params.n;
  auto slots = lease->reserve_slots(num_sequences, context.max_waiting);
  const auto generation =
      std::make_shared<Generation>(exchange, std::move(lease), std::move(slots), std::move(input),
                                   num_copies, std::move(writer), context.metrics);
  generation->submit();
}

}  // namespace graft::server
