// The responses of /api/chat and /api/generate: one JSON object, or a stream of one per line.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graft/server/generation/generation.h"
#include "graft/server/generation/output_parser.h"

namespace graft::server::ollama {

struct ResponseOptions {
  std::string model = {};
  OutputFormat format = {};
  bool is_chat = true;
  bool is_stream = true;
  bool wants_logprobs = false;
  double load_seconds = 0;                 // time this request waited for the model to load
  std::vector<api::TokenId> context = {};  // generate: prompt tokens; output tokens are appended
  const tokenizer::Tokenizer* tokenizer = nullptr;
  std::function<double()> clock = {};  // Unix time in seconds
};

class OllamaResponseWriter final : public ResponseWriter {
 public:
  explicit OllamaResponseWriter(ResponseOptions options);

  std::string append(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string error(const std::string& message) override;
  std::size_t num_bytes() const override;

 private:
  OrderedJson line(const OutputDelta& delta, bool is_done) const;
  OrderedJson logprobs_of(const api::Update& update) const;

  ResponseOptions options_;
  OutputParser parser_;   // whole calls: Ollama has no pieces of them, also in streams
  OutputDelta all_;       // the accumulated output; unused when streaming
  std::string logprobs_;  // text of the list's items; unused when streaming
  std::string done_reason_;
};

// The response to a request without a prompt: {"done": true, "done_reason": "load"}.
std::string empty_response(const std::string& model, bool is_chat, const char* reason, double now);

}  // namespace graft::server::ollama
