// The answer of /v1/completions, in one piece or as events. Choices are numbered prompt by prompt.

#pragma once

#include <string>
#include <vector>

#include "graft/server/generation/generation.h"
#include "graft/server/openai/wire.h"

namespace graft::server::openai {

struct CompletionAnswerOptions {
  std::vector<std::string> echoes = {};  // a text per prompt to begin with; empty: none
  std::vector<std::vector<api::TokenId>> prompts = {};  // for logprobs of what is echoed
  std::int64_t num_samples = 1;                         // of each prompt
  std::size_t num_prompts = 1;
  bool is_stream = false;
  bool include_usage = false;
  bool wants_logprobs = false;
  bool drops_output = false;
  const tokenizer::Tokenizer* tokenizer = nullptr;  // for logprobs
};

class CompletionAnswer final : public Answer {
 public:
  CompletionAnswer(Identity identity, CompletionAnswerOptions options);

  std::string begin() override;
  std::string take(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string failure(const std::string& message) override { return sse_failure(message); }

 private:
  // {tokens, token_logprobs, top_logprobs, text_offset}
  struct Logprobs {
    OrderedJson tokens = OrderedJson::array();
    OrderedJson values = OrderedJson::array();
    OrderedJson tops = OrderedJson::array();
    OrderedJson offsets = OrderedJson::array();
  };
  struct Choice {
    std::string text = {};
    Logprobs logprobs = {};
    std::size_t offset = 0;  // of the next token, in bytes
    std::string finish_reason = {};
  };

  void add_token(Choice& choice, const api::TokenLogprobs& token, Logprobs& out) const;
  void add_prompt(Choice& choice, std::size_t prompt, const api::Update& update) const;
  std::string chunk(std::size_t index,
                    const std::string& text,
                    const OrderedJson& logprobs,
                    const OrderedJson& finish_reason) const;
  OrderedJson head() const;
  static OrderedJson to_json(const Logprobs& logprobs);

  Identity identity_;
  CompletionAnswerOptions options_;
  std::vector<Choice> choices_;
};

}  // namespace graft::server::openai
