// What each client uses, held against its limits: requests and tokens of the last minute, running
// and queued answers, queued prompt tokens. Over a limit a request gets 429 with Retry-After.
// Thread-safe.
//
// Rates are leaky buckets: use drains evenly at the rate of the limit, so that a client may use a
// minute's worth at once. Output tokens are charged as they are generated and may exceed the limit;
// then new requests wait until the excess has drained.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/server/access/access.h"
#include "graft/server/api_error.h"
#include "graft/server/clients/client_limits.h"
#include "graft/server/http/message.h"

namespace graft::server {

class ClientMeter {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  explicit ClientMeter(LimitTable limits, Now now = Clock::now);

  // Replaces the limits; what clients have used so far counts.
  void set_limits(LimitTable limits);

  struct Admission {
    std::optional<ApiError> error = {};      // 429
    std::vector<http::Header> headers = {};  // x-ratelimit-*, of the limits that the client has
  };
  // Counts a request, before its body is read.
  Admission admit(const Client& client);

  // The use of one accepted request, until it is destroyed. May outlive the meter.
  class Use {
   public:
    virtual ~Use() = default;
    // A prompt of this many tokens has its first output token, or has ended.
    virtual void dequeue(std::int64_t num_prompt_tokens) = 0;
    virtual void add_output(std::int64_t num_tokens) = 0;
    // All answers have ended.
    virtual void end() = 0;
  };
  // Counts the answers and prompt tokens of a request. Throws ApiError: 429, or 400 when the
  // request alone exceeds a limit.
  std::unique_ptr<Use> begin(const Client& client,
                             std::int64_t num_answers,
                             std::int64_t num_prompt_tokens);

  // Counts a 429 of another cause.
  void count_rejected(const Client& client, std::string_view reason);

  std::string metrics_text() const;

 private:
  struct State;

  std::shared_ptr<State> state_;
};

}  // namespace graft::server
