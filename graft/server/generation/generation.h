// Answers to the prompts of one request: submits them, gives what comes back to the Answer of the
// API that was asked, and sends what that makes of it. A client that goes away ends its answers.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/server/http/exchange.h"
#include "graft/server/metrics.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

struct Usage {
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;  // of the prompts
  std::int64_t num_output = 0;
  // From the first prompt's seat to its first token, and from there to the end.
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double total_seconds = 0;
};

// Turns updates into the text of an API. Pure: no clock of its own, no sockets. One thread at a
// time.
class Answer {
 public:
  virtual ~Answer() = default;

  // What a stream begins with.
  virtual std::string begin() { return {}; }
  // What an update adds to the stream; of an answer in one piece: nothing.
  virtual std::string take(std::size_t prompt, const api::Update& update) = 0;
  // All samples have ended: the end of the stream, or the whole answer.
  virtual std::string finish(const Usage& usage) = 0;
  // It went wrong after the stream had begun.
  virtual std::string failure(const std::string& message) = 0;
};

struct GenerationInput {
  std::vector<std::vector<api::TokenId>> prompts = {};
  api::SamplingParams params = {};
  api::SubmitOptions options = {};
  bool is_stream = false;
  http::StreamHead head = {};  // of the stream
};

struct GenerationContext {
  Metrics& metrics;
  std::int64_t max_waiting = 0;  // answers that wait for a seat
};

// Returns when the prompts are submitted. Throws Error and ApiError before anything is sent.
void start_generation(const http::ExchangePtr& exchange,
                      Lease lease,
                      GenerationInput input,
                      std::unique_ptr<Answer> answer,
                      const GenerationContext& context);

}  // namespace graft::server
