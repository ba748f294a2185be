// The answer of /v1/chat/completions, in one piece or as events.

#pragma once

#include <deque>
#include <string>
#include <vector>

#include "graft/server/generation/answer_parser.h"
#include "graft/server/generation/generation.h"
#include "graft/server/openai/wire.h"

namespace graft::server::openai {

struct ChatAnswerOptions {
  AnswerFormat format = {};
  std::int64_t num_choices = 1;
  bool is_stream = false;
  bool include_usage = false;
  bool wants_logprobs = false;
  const tokenizer::Tokenizer* tokenizer = nullptr;  // for logprobs
};

class ChatAnswer final : public Answer {
 public:
  ChatAnswer(Identity identity, const ChatAnswerOptions& options);

  std::string begin() override;
  std::string take(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string failure(const std::string& message) override { return sse_failure(message); }

 private:
  struct Choice {
    AnswerParser parser;
    std::string content = {};
    std::string reasoning = {};
    std::vector<ToolCall> calls = {};
    OrderedJson logprobs = OrderedJson::array();
    std::string finish_reason = {};
  };

  std::string chunk(std::size_t index,
                    const OrderedJson& delta,
                    const OrderedJson& logprobs,
                    const OrderedJson& finish_reason) const;
  std::string deltas(std::size_t index, const AnswerDelta& delta, const OrderedJson& logprobs);
  void keep(Choice& choice, AnswerDelta delta);
  OrderedJson logprobs_of(const api::Update& update) const;
  OrderedJson head(const char* object) const;
  static OrderedJson message_of(const Choice& choice);

  Identity identity_;
  ChatAnswerOptions options_;
  std::deque<Choice> choices_;
  std::int64_t num_reasoning_ = 0;  // tokens
};

}  // namespace graft::server::openai
