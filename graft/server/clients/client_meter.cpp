#include "graft/server/clients/client_meter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/metrics/prometheus.h"

namespace graft::server {
namespace {

using Clock = ClientMeter::Clock;

// Clients without a key that use nothing are forgotten when there are more than this.
constexpr std::size_t kMaxIdleClients = 1024;

constexpr const char* kRequestsPerMinute = "requests_per_minute";
constexpr const char* kTokensPerMinute = "tokens_per_minute";
constexpr const char* kConcurrentAnswers = "concurrent_answers";
constexpr const char* kQueuedTokens = "queued_tokens";

// What a client has used of a rate. It drains at the limit per minute.
class RateUse {
 public:
  void drain(const std::optional<std::int64_t>& limit, Clock::time_point now) {
    const double minutes = std::chrono::duration<double>(now - at_).count() / 60;
    used_ = limit ? std::max(0.0, used_ - minutes * static_cast<double>(*limit)) : 0;
    at_ = now;
  }
  void add(double count) { used_ += count; }
  bool is_unused() const { return used_ == 0; }

  // Seconds until `count` more fit; 0: now. More than the whole limit fits when nothing is used.
  double wait_seconds(std::int64_t limit, double count) const {
    const double excess =
        used_ + std::min(count, static_cast<double>(limit)) - static_cast<double>(limit);
    return excess < kRounding ? 0 : excess * seconds_per_unit(limit);
  }
  std::int64_t num_remaining(std::int64_t limit) const {
    return std::max<std::int64_t>(0,
                                  limit - static_cast<std::int64_t>(std::ceil(used_ - kRounding)));
  }
  double reset_seconds(std::int64_t limit) const { return used_ * seconds_per_unit(limit); }

 private:
  static constexpr double kRounding = 1e-6;

  static double seconds_per_unit(std::int64_t limit) { return 60.0 / static_cast<double>(limit); }

  double used_ = 0;
  Clock::time_point at_ = {};
};

// OpenAI's form of a duration: "20ms", "12s", "6m0s".
std::string duration_text(double seconds) {
  if (seconds < 1) return str(static_cast<std::int64_t>(std::ceil(seconds * 1000)), "ms");
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return whole < 60 ? str(whole, "s") : str(whole / 60, "m", whole % 60, "s");
}

void add_rate_headers(std::vector<http::Header>& headers,
                      const std::string& what,
                      const std::optional<std::int64_t>& limit,
                      const RateUse& use) {
  if (!limit) return;
  headers.push_back({.name = "x-ratelimit-limit-" + what, .value = std::to_string(*limit)});
  headers.push_back({.name = "x-ratelimit-remaining-" + what,
                     .value = std::to_string(use.num_remaining(*limit))});
  headers.push_back(
      {.name = "x-ratelimit-reset-" + what, .value = duration_text(use.reset_seconds(*limit))});
}

ApiError limit_error(const std::string& message, double wait_seconds) {
  // A client that retries early gets 429 again: a day is long enough.
  constexpr double kMaxWaitSeconds = 86400;
  ApiError error(429, message, {}, "rate_limit_exceeded");
  error.retry_after_seconds =
      static_cast<int>(std::clamp(std::ceil(wait_seconds), 1.0, kMaxWaitSeconds));
  return error;
}

ApiError rate_error(const char* what, const char* reason, std::int64_t limit, double wait_seconds) {
  const ApiError error = limit_error({}, wait_seconds);
  return limit_error(str("too many ", what, ": the limit of this client is ", limit,
                         " per minute (", reason, "); retry in ", error.retry_after_seconds, " s"),
                     wait_seconds);
}

struct ClientUse {
  RateUse requests = {};
  RateUse tokens = {};
  std::int64_t num_answers = 0;
  std::int64_t num_queued_tokens = 0;

  bool is_unused() const {
    return requests.is_unused() && tokens.is_unused() && num_answers == 0 && num_queued_tokens == 0;
  }
};

// Counters of an API key.
struct KeyCounters {
  std::int64_t num_requests = 0;
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_output_tokens = 0;
  std::int64_t num_rejected = 0;
};

}  // namespace

struct ClientMeter::State {
  State(LimitTable given_limits, Now given_now) : limits(std::move(given_limits)), now(given_now) {}

  // Drained to the current time.
  ClientUse& use_of(std::uint64_t client) {
    if (!uses.contains(client) && uses.size() >= max_clients) forget_unused();
    ClientUse& use = uses[client];
    drain(client, use);
    return use;
  }

  void drain(std::uint64_t client, ClientUse& use) const {
    const Clock::time_point time = now();
    use.requests.drain(limits.of(client).requests_per_minute, time);
    use.tokens.drain(limits.of(client).tokens_per_minute, time);
  }

  // Doubles the size at which it runs again when most clients are in use: amortized constant time.
  void forget_unused() {
    for (auto it = uses.begin(); it != uses.end();) {
      drain(it->first, it->second);
      it = it->second.is_unused() ? uses.erase(it) : std::next(it);
    }
    max_clients = std::max(kMaxIdleClients, uses.size() * 2);
  }

  // Null without a key: addresses are not counted one by one.
  KeyCounters* counters_of(const Client& client) {
    return client.key.empty() ? nullptr : &keys[client.key];
  }

  void reject(const Client& client, std::string_view reason) {
    ++num_rejected[std::string(reason)];
    if (KeyCounters* counters = counters_of(client)) ++counters->num_rejected;
  }

  std::mutex mutex;
  LimitTable limits;
  const Now now;
  std::unordered_map<std::uint64_t, ClientUse> uses;
  std::size_t max_clients = kMaxIdleClients;
  std::map<std::string, KeyCounters> keys;
  // Every reason from the start: a counter that appears later has no first value.
  std::map<std::string, std::int64_t> num_rejected = {
      {kRequestsPerMinute, 0}, {kTokensPerMinute, 0}, {kConcurrentAnswers, 0},
      {kQueuedTokens, 0},      {"queue_full", 0},     {"loading", 0}};
};

namespace {

// Throws unless `count` more fit into the limit.
template <class Reject>
void check_amount(std::int64_t used,
                  std::int64_t count,
                  const std::optional<std::int64_t>& limit,
                  const std::string& what,
                  const char* name,
                  const Reject& reject) {
  if (!limit || used + count <= *limit) return;
  if (count > *limit) {
    throw ApiError(400,
                   str("the request has ", count, " ", what, ", max for this client is ", *limit,
                       " (", name, ")"),
                   {}, "request_too_large");
  }
  reject(name);
  throw limit_error(
      str("too many requests: this client has ", used, " ", what,
          " running or queued, the request has ", count, ", max ", *limit, " (", name, ")"),
      1);
}

}  // namespace

ClientMeter::ClientMeter(LimitTable limits, Now now)
    : state_(std::make_shared<State>(std::move(limits), now)) {}

void ClientMeter::set_limits(LimitTable limits) {
  const std::lock_guard lock(state_->mutex);
  state_->limits = std::move(limits);
}

ClientMeter::Admission ClientMeter::admit(const Client& client) {
  const std::lock_guard lock(state_->mutex);
  const ClientLimits& limits = state_->limits.of(client.id);
  ClientUse& use = state_->use_of(client.id);
  Admission admission;
  const auto check = [&](const char* what, const char* name,
                         const std::optional<std::int64_t>& limit, const RateUse& rate) {
    const double wait = limit ? rate.wait_seconds(*limit, 1) : 0;
    if (wait <= 0 || admission.error) return;
    admission.error = rate_error(what, name, *limit, wait);
    state_->reject(client, name);
  };
  check("requests", kRequestsPerMinute, limits.requests_per_minute, use.requests);
  check("tokens", kTokensPerMinute, limits.tokens_per_minute, use.tokens);
  if (KeyCounters* counters = state_->counters_of(client)) ++counters->num_requests;
  if (!admission.error && limits.requests_per_minute) use.requests.add(1);
  add_rate_headers(admission.headers, "requests", limits.requests_per_minute, use.requests);
  add_rate_headers(admission.headers, "tokens", limits.tokens_per_minute, use.tokens);
  return admission;
}

namespace {

template <class State>
class CountedUse final : public ClientMeter::Use {
 public:
  CountedUse(std::shared_ptr<State> state,
             Client client,
             std::int64_t num_answers,
             std::int64_t num_queued)
      : state_(std::move(state)),
        client_(std::move(client)),
        num_answers_(num_answers),
        num_queued_(num_queued) {}
  CountedUse(const CountedUse&) = delete;
  CountedUse& operator=(const CountedUse&) = delete;
  ~CountedUse() override { release(); }

  void dequeue(std::int64_t num_prompt_tokens) override {
    const std::lock_guard lock(state_->mutex);
    const std::int64_t count = std::min(num_prompt_tokens, num_queued_);
    num_queued_ -= count;
    state_->uses[client_.id].num_queued_tokens -= count;
  }

  void add_output(std::int64_t num_tokens) override {
    const std::lock_guard lock(state_->mutex);
    if (state_->limits.of(client_.id).tokens_per_minute)
      state_->use_of(client_.id).tokens.add(static_cast<double>(num_tokens));
    if (KeyCounters* counters = state_->counters_of(client_))
      counters->num_output_tokens += num_tokens;
  }

  void end() override { release(); }

 private:
  void release() {
    const std::lock_guard lock(state_->mutex);
    ClientUse& use = state_->uses[client_.id];
    use.num_answers -= std::exchange(num_answers_, 0);
    use.num_queued_tokens -= std::exchange(num_queued_, 0);
  }

  const std::shared_ptr<State> state_;
  const Client client_;
  std::int64_t num_answers_;
  std::int64_t num_queued_;
};

}  // namespace

std::unique_ptr<ClientMeter::Use> ClientMeter::begin(const Client& client,
                                                     std::int64_t num_answers,
                                                     std::int64_t num_prompt_tokens) {
  const std::lock_guard lock(state_->mutex);
  const ClientLimits& limits = state_->limits.of(client.id);
  ClientUse& use = state_->use_of(client.id);
  const auto reject = [&](const char* name) { state_->reject(client, name); };
  check_amount(use.num_answers, num_answers, limits.concurrent_answers, "answers",
               kConcurrentAnswers, reject);
  check_amount(use.num_queued_tokens, num_prompt_tokens, limits.queued_tokens, "prompt tokens",
               kQueuedTokens, reject);
  const auto num_tokens = static_cast<double>(num_prompt_tokens);
  if (limits.tokens_per_minute) {
    const double wait = use.tokens.wait_seconds(*limits.tokens_per_minute, num_tokens);
    if (wait > 0) {
      reject(kTokensPerMinute);
      throw rate_error("tokens", kTokensPerMinute, *limits.tokens_per_minute, wait);
    }
    use.tokens.add(num_tokens);
  }
  use.num_answers += num_answers;
  use.num_queued_tokens += num_prompt_tokens;
  if (KeyCounters* counters = state_->counters_of(client))
    counters->num_prompt_tokens += num_prompt_tokens;
  return std::make_unique<CountedUse<State>>(state_, client, num_answers, num_prompt_tokens);
}

void ClientMeter::count_rejected(const Client& client, std::string_view reason) {
  const std::lock_guard lock(state_->mutex);
  state_->reject(client, reason);
}

std::string ClientMeter::metrics_text() const {
  std::string out;
  MetricWriter metrics(out);
  const std::lock_guard lock(state_->mutex);
  metrics.begin("graft:requests_rejected_total", "counter",
                "Requests that got 429, by the limit that they exceeded.");
  for (const auto& [reason, count] : state_->num_rejected)
    metrics.add({{"reason", reason}}, static_cast<double>(count));
  const auto add = [&](const char* name, const char* help, std::int64_t KeyCounters::*value) {
    metrics.begin(name, "counter", help);
    for (const auto& [key, counters] : state_->keys)
      metrics.add({{"key", key}}, static_cast<double>(counters.*value));
  };
  add("graft:key_requests_total", "Requests by API key: the start of its SHA-256.",
      &KeyCounters::num_requests);
  add("graft:key_prompt_tokens_total", "Prompt tokens by API key.",
      &KeyCounters::num_prompt_tokens);
  add("graft:key_output_tokens_total", "Generated tokens by API key.",
      &KeyCounters::num_output_tokens);
  add("graft:key_rejected_total", "Requests that got 429 by API key.", &KeyCounters::num_rejected);
  return out;
}

}  // namespace graft::server
