// Text generation for one HTTP request: submits its prompts, passes the updates to the API's
// ResponseWriter and sends the text it returns, at the pace at which the client reads it. A
// disconnect of the client aborts the sequences.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/engine/snapshots/snapshot.h"
#include "graft/server/access/access.h"
#include "graft/server/clients/client_meter.h"
#include "graft/server/generation/request_limits.h"
#include "graft/server/http/exchange.h"
#include "graft/server/http/worker_pool.h"
#include "graft/server/metrics/metrics.h"
#include "graft/server/models/model_pool.h"
#include "graft/server/sequences/running.h"

namespace graft::server {

struct Usage {
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;  // prompt tokens found in the prefix cache
  std::int64_t num_output = 0;
  std::int64_t num_draft_tokens = 0;     // guessed and verified
  std::int64_t num_accepted_tokens = 0;  // of them
  // Max over the prompts: from the first scheduled step to the first token, and from there to the
  // end.
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double total_seconds = 0;
};

// Formats updates as the response of an API. Pure: no clock, no sockets. Not thread-safe.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // The start of a stream.
  virtual std::string begin() { return {}; }
  // Adds an update of prompt number `prompt`. Returns what to append to the stream; empty when the
  // response is not streamed.
  virtual std::string append(std::size_t prompt, const api::Update& update) = 0;
  // All samples have finished: the end of the stream, or the complete response.
  virtual std::string finish(const Usage& usage) = 0;
  // Bytes collected so far for a response that is not streamed.
  virtual std::size_t num_bytes() const = 0;
  // The end of a stream that failed after it had started.
  virtual std::string error(const std::string& message) = 0;
};

struct GenerationInput {
  std::vector<std::vector<api::TokenId>> prompts = {};
  api::SamplingParams params = {};
  Client client = {};
  api::SubmitOptions options = {};  // the client is set by start_generation()
  bool is_stream = false;
  http::StreamHead stream_head = {};
  std::string structured_field = {};  // of params.structured_output, for messages
  RequestSize size = {};              // prompts and is_stream are set by start_generation()
  // A saved sequence that goes on instead of a new one; `prompts` has its prompt.
  std::shared_ptr<engine::Snapshot> snapshot = {};
  std::string snapshot_name = {};
};

struct GenerationContext {
  Metrics& metrics;
  ClientMeter& clients;
  http::WorkerPool& workers;     // for building responses
  std::int64_t max_waiting = 0;  // queued sequences, beyond those that run
  RequestLimits limits = {};
  std::size_t max_queued_bytes = 0;  // of updates, before the engine pauses a request
  RunningGenerations& running;
};

// Returns once the prompts are submitted. Throws Error or ApiError before anything is sent.
void start_generation(const http::ExchangePtr& exchange,
                      Lease lease,
                      GenerationInput input,
                      std::unique_ptr<ResponseWriter> writer,
                      const GenerationContext& context);

}  // namespace graft::server
