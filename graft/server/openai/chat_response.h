// The response of /v1/chat/completions, as one JSON object or as server-sent events.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "graft/server/generation/generation.h"
#include "graft/server/generation/output_parser.h"
#include "graft/server/openai/wire.h"

namespace graft::server::openai {

struct ChatResponseOptions {
  OutputFormat format = {};
  std::int64_t num_choices = 1;
  bool is_stream = false;
  bool include_usage = false;
  bool wants_logprobs = false;
  std::optional<std::int64_t> prompt_logprobs = {};  // alternatives per token; unset: none
  const tokenizer::Tokenizer* tokenizer = nullptr;   // for logprobs
};

class ChatResponseWriter final : public ResponseWriter {
 public:
  ChatResponseWriter(Identity identity, const ChatResponseOptions& options);

  std::string begin() override;
  std::string append(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string error(const std::string& message) override { return sse_error(message); }
  std::size_t num_bytes() const override { return num_bytes_; }

 private:
  struct Choice {
    OutputParser parser;
    std::string content = {};
    std::string reasoning = {};
    std::vector<ToolCall> calls = {};
    std::string logprobs = {};  // text of the list's items
    std::string finish_reason = {};
  };

  std::string chunk(std::size_t index,
                    const OrderedJson& delta,
                    const OrderedJson& logprobs,
                    const OrderedJson& finish_reason) const;
  std::string deltas(std::size_t index, const OutputDelta& delta, const OrderedJson& logprobs);
  void keep(Choice& choice, OutputDelta delta);
  OrderedJson logprobs_of(const api::Update& update) const;
  OrderedJson head(const char* object) const;
  static OrderedJson message_of(const Choice& choice);
  std::string choice_text(std::size_t index, const Choice& choice) const;

  Identity identity_;
  ChatResponseOptions options_;
  std::deque<Choice> choices_;
  std::string prompt_logprobs_;     // text of the list
  std::int64_t num_reasoning_ = 0;  // tokens
  std::size_t num_bytes_ = 0;
};

}  // namespace graft::server::openai
