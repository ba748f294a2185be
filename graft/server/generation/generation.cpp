#include "graft/server/generation/generation.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/grammar/output_matcher.h"
#include "graft/server/api_error.h"
#include "graft/server/generation/reservation.h"

namespace graft::server {
namespace {

using Clock = engine::Clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// The heap and object bytes of an update.
std::size_t bytes_of(const api::Update& update) {
  std::size_t bytes =
      sizeof(update) + update.text.size() + update.tokens.size() * sizeof(api::TokenId);
  for (const auto* list : {&update.logprobs, &update.prompt_logprobs}) {
    for (const api::TokenLogprobs& token : *list)
      bytes += sizeof(token) + token.top.size() * sizeof(token.top[0]);
  }
  return bytes;
}

// Updates arrive on the engine's thread and wait in a queue; one task at a time on the response
// workers turns them into the response, and waits while the client has not read what was written.
// The engine pauses the request while the queue is too long, so that memory stays bounded.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(http::ExchangePtr exchange,
             Lease lease,
             Reservation reservation,
             GenerationInput input,
             std::int64_t num_copies,
             std::unique_ptr<ResponseWriter> writer,
             const GenerationContext& context)
      : exchange_(std::move(exchange)),
        lease_(std::move(lease)),
        input_(std::move(input)),
        num_copies_(num_copies),
        writer_(std::move(writer)),
        context_(context),
        reservation_(std::move(reservation)),
        has_begun_prompt_(input_.prompts.size(), false),
        num_running_(static_cast<std::int64_t>(input_.prompts.size()) * input_.params.n),
        num_left_(num_running_) {}
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
    input_.prompts = {};  // the engine has its own copy
    input_.snapshot = nullptr;
    list_running();
    exchange_->on_disconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->abort();
    });
    // From here on start_generation() cannot throw, so that the response may begin.
    const std::lock_guard lock(mutex_);
    is_active_ = true;
    post_work();
  }

 private:
  struct QueuedUpdate {
    std::size_t prompt = 0;
    api::Update update = {};
    Clock::time_point time = {};
  };

  // Those that have finished since are not listed.
  void list_running() {
    std::shared_ptr<void> listed =
        context_.running.add({.id = exchange_->request().id,
                              .path = exchange_->request().path,
                              .model = lease_->name(),
                              .loaded = lease_,
                              .requests = requests_,
                              .num_samples = input_.params.n * num_copies_,
                              .is_copied = num_copies_ > 1});
    const std::lock_guard lock(mutex_);
    if (num_running_ > 0) listed_ = std::move(listed);
  }

  api::RequestId submit(std::size_t prompt) {
    const auto forward = [self = shared_from_this(), prompt](const api::Update& update) {
      self->enqueue({.prompt = prompt, .update = update, .time = Clock::now()});
    };
    try {
      if (input_.snapshot != nullptr) {
        return lease_->llm().restore(std::move(*input_.snapshot), input_.snapshot_name, forward,
                                     input_.client.id);
      }
      return lease_->llm().submit(input_.prompts[prompt], input_.params, forward, input_.options);
    } catch (const grammar::GrammarError& error) {
      const std::string& field = input_.structured_field;
      throw ApiError(400, str(field, ": ", error.what()), field);
    }
  }

  void abort() {
    for (const api::RequestId request : requests_)
      lease_->llm().abort(request);
  }

  void enqueue(QueuedUpdate queued) {
    const std::lock_guard lock(mutex_);
    queued_bytes_ += bytes_of(queued.update);
    count_use(queued);
    // The client may read for long after the engine has finished.
    if (queued.update.finish && --num_running_ == 0) {
      reservation_.release();
      listed_ = nullptr;
    }
    queue_.push_back(std::move(queued));
    if (!has_begun_) return;
    set_paused(queued_bytes_ > context_.max_queued_bytes);
    if (!std::exchange(is_active_, true)) post_work();
  }

  void count_use(const QueuedUpdate& queued) {
    const auto num_tokens = static_cast<std::int64_t>(queued.update.tokens.size());
    if (num_tokens > 0) reservation_.use->add_output(num_tokens);
    if ((num_tokens == 0 && !queued.update.finish) || has_begun_prompt_[queued.prompt]) return;
    has_begun_prompt_[queued.prompt] = true;
    reservation_.use->dequeue(queued.update.num_prompt);
  }

  void post_work() {
    context_.workers.post([self = shared_from_this()] { self->work(); });
  }

  void set_paused(bool is_paused) {
    if (std::exchange(is_paused_, is_paused) == is_paused) return;
    for (const api::RequestId request : requests_) {
      if (is_paused) {
        lease_->llm().pause(request);
      } else {
        lease_->llm().resume(request);
      }
    }
  }

  // Formats queued updates. Runs as one task at a time.
  void work() {
    constexpr int kMaxUpdates = 64;  // then other responses get their turn
    if (!has_begun_) begin();
    for (int i = 0; i < kMaxUpdates; ++i) {
      const bool must_wait =
          exchange_->when_writable([self = shared_from_this()] { self->post_work(); });
      if (must_wait) return;
      std::optional<QueuedUpdate> next = take_update();
      if (!next) return;
      on_update(next->prompt, std::move(next->update), next->time);
    }
    post_work();
  }

  // Empty: the queue is empty and the task must end.
  std::optional<QueuedUpdate> take_update() {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) {
      is_active_ = false;
      set_paused(false);
      return std::nullopt;
    }
    QueuedUpdate next = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= bytes_of(next.update);
    if (queued_bytes_ <= context_.max_queued_bytes / 2) set_paused(false);
    return next;
  }

  void begin() {
    if (input_.is_stream) {
      exchange_->start_stream(std::move(input_.stream_head));
      exchange_->write(writer_->begin());
    }
    const std::lock_guard lock(mutex_);
    has_begun_ = true;
  }

  void on_update(std::size_t prompt, api::Update update, Clock::time_point now) {
    record_metrics(prompt, update, now);
    const bool is_finish = update.finish.has_value();
    if (is_finish && update.finish->reason == api::FinishReason::Error) {
      set_error({500, update.finish->message});
    } else if (is_finish && update.finish->reason == api::FinishReason::Abort) {
      set_error({500, "the server is shutting down"});
    } else if (!error_) {
      append(prompt, std::move(update));
    }
    if (is_finish && --num_left_ == 0) finish();
  }

  // The first error is the cause of the others.
  void set_error(const ApiError& error) {
    if (!error_) error_ = error;
  }

  void append(std::size_t prompt, api::Update update) {
    // A stop token is not in the text, and clients count the logprobs against it.
    if (update.finish && update.finish->stop_token && !update.logprobs.empty())
      update.logprobs.pop_back();
    std::string text = writer_->append(prompt, update);
    for (update.id.sample = 1; update.id.sample < num_copies_; ++update.id.sample)
      text += writer_->append(prompt, update);
    if (input_.is_stream) {
      exchange_->write(text);
    } else if (writer_->num_bytes() > context_.limits.max_response_bytes) {
      set_error({400,
                 str("the response has more than ", context_.limits.max_response_bytes,
                     " bytes (--max-response-mib); stream it, or ask for fewer answers, tokens or "
                     "logprobs"),
                 {},
                 "response_too_large"});
      abort();
    }
  }

  void record_metrics(std::size_t prompt, const api::Update& update, Clock::time_point now) {
    if (!update.tokens.empty()) record_tokens(prompt, update, now);
    if (update.finish) record_finish(update, now);
  }

  // Counts tokens with every update, so that the counters show the current throughput.
  void record_tokens(std::size_t prompt, const api::Update& update, Clock::time_point now) {
    std::optional<Clock::time_point>& last = last_token_[{prompt, update.id.sample}];
    if (last) {
      context_.metrics.next_token(lease_->name(), seconds_between(*last, now));
    } else {
      context_.metrics.first_token(lease_->name(), seconds_between(start_, now));
      if (update.id.sample == 0)
        context_.metrics.prompt(lease_->name(), update.num_prompt, update.num_cached);
    }
    last = now;
    context_.metrics.output(lease_->name(), update.tokens.size());
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
    context_.metrics.finished(lease_->name(), finished);
    usage_.num_output += update.num_output * num_copies_;
    usage_.num_draft_tokens += update.num_draft_tokens;
    usage_.num_accepted_tokens += update.num_accepted_tokens;
    if (update.id.sample != 0) return;
    usage_.num_prompt += update.num_prompt;
    usage_.num_cached += update.num_cached;
    usage_.prefill_seconds = std::max(usage_.prefill_seconds, finished.prefill_seconds);
    usage_.decode_seconds = std::max(usage_.decode_seconds, finished.decode_seconds);
  }

  void finish() {
    usage_.total_seconds = seconds_between(start_, Clock::now());
    exchange_->log_field("model", lease_.name());
    exchange_->log_field("prompt_tokens", usage_.num_prompt);
    exchange_->log_field("cached_tokens", usage_.num_cached);
    exchange_->log_field("output_tokens", usage_.num_output);
    if (error_) exchange_->log_field("error", error_->what());
    if (input_.is_stream) {
      exchange_->write(error_ ? writer_->error(error_->what()) : writer_->finish(usage_));
      exchange_->end();
    } else if (error_) {
      exchange_->respond(error_response(*error_, exchange_->request().path));
    } else {
      exchange_->respond({.body = writer_->finish(usage_)});
    }
  }

  const http::ExchangePtr exchange_;
  const Lease lease_;
  GenerationInput input_;
  const std::int64_t num_copies_;  // copies of the one greedy sample; 1 when sampling
  const std::unique_ptr<ResponseWriter> writer_;
  const GenerationContext context_;
  const Clock::time_point start_ = Clock::now();
  std::vector<api::RequestId> requests_;  // does not change after submit()

  std::mutex mutex_;  // guards the queue and the members after it
  std::deque<QueuedUpdate> queue_;
  std::size_t queued_bytes_ = 0;
  Reservation reservation_;
  std::shared_ptr<void> listed_;        // in context_.running
  std::vector<bool> has_begun_prompt_;  // its first output token was queued
  std::int64_t num_running_;            // samples without a queued end
  bool is_active_ = false;              // a task works on the queue, or waits until it can write
  bool has_begun_ = false;              // the engine may be paused
  bool is_paused_ = false;

  // Only the task uses these.
  std::int64_t num_left_;  // samples that have not finished
  std::map<std::pair<std::size_t, std::int64_t>, std::optional<Clock::time_point>> last_token_;
  Usage usage_;
  std::optional<ApiError> error_;
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
  RequestSize size = input.size;
  size.num_prompts = input.prompts.size();
  size.is_stream = input.is_stream;
  input.params.max_tokens = check_request(size, input.params, max_model_len, context.limits);
  // Greedy samples are identical: one is computed and copied.
  const bool is_greedy = input.params.is_greedy();
  const std::int64_t num_copies = is_greedy ? std::exchange(input.params.n, 1) : 1;
  const std::int64_t num_sequences =
      static_cast<std::int64_t>(input.prompts.size()) * input.params.n;
  ReservationSize reserved = {.num_sequences = num_sequences, .max_waiting = context.max_waiting};
  for (const auto& prompt : input.prompts)
    reserved.num_prompt_tokens += static_cast<std::int64_t>(prompt.size());
  Reservation reservation = reserve(*lease, context.clients, input.client, reserved);
  input.options.client = input.client.id;
  input.options.adapter = lease.adapter;
  const auto generation =
      std::make_shared<Generation>(exchange, std::move(lease), std::move(reservation),
                                   std::move(input), num_copies, std::move(writer), context);
  generation->submit();
}

}  // namespace graft::server
