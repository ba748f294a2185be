// The answers of /api/chat and /api/generate: one object, or one per line.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graft/server/generation/answer_parser.h"
#include "graft/server/generation/generation.h"

namespace graft::server::ollama {

struct AnswerOptions {
  std::string model = {};
  AnswerFormat format = {};
  bool is_chat = true;
  bool is_stream = true;
  bool wants_logprobs = false;
  double load_seconds = 0;                 // that this request waited for its model
  std::vector<api::TokenId> context = {};  // generate: the prompt, to which the answer is added
  const tokenizer::Tokenizer* tokenizer = nullptr;
  std::function<double()> clock = {};  // seconds since 1970
};

class OllamaAnswer final : public Answer {
 public:
  explicit OllamaAnswer(AnswerOptions options);

  std::string take(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string failure(const std::string& message) override;

 private:
  OrderedJson line(const AnswerDelta& delta, bool is_done) const;
  OrderedJson logprobs_of(const api::Update& update) const;

  AnswerOptions options_;
  AnswerParser parser_;
  AnswerDelta all_;  // of an answer in one piece
  OrderedJson logprobs_ = OrderedJson::array();
  std::string done_reason_;
};

// What an empty request gets: {"done": true, "done_reason": "load"}.
std::string empty_answer(const std::string& model, bool is_chat, const char* reason, double now);

}  // namespace graft::server::ollama
