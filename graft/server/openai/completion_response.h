// The response of /v1/completions, as one JSON object or as server-sent events. The index of a
// choice is prompt * num_samples + sample.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "graft/server/generation/generation.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/wire.h"

namespace graft::server::openai {

struct CompletionResponseOptions {
  std::vector<std::string> echoes = {};  // text of each prompt, prepended to its choices; or empty
  std::vector<std::vector<api::TokenId>> prompts = {};  // for logprobs of echoed prompts
  std::int64_t num_samples = 1;                         // per prompt
  std::size_t num_prompts = 1;
  bool is_stream = false;
  bool include_usage = false;
  bool wants_logprobs = false;
  std::int64_t num_echo_top = 0;                     // alternatives per token of an echoed prompt
  std::optional<std::int64_t> prompt_logprobs = {};  // alternatives per token; unset: none
  bool discard_output = false;
  const tokenizer::Tokenizer* tokenizer = nullptr;  // for logprobs
};

class CompletionResponseWriter final : public ResponseWriter {
 public:
  CompletionResponseWriter(Identity identity, CompletionResponseOptions options);

  std::string begin() override;
  std::string append(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string error(const std::string& message) override { return sse_error(message); }
  std::size_t num_bytes() const override { return num_bytes_; }

 private:
  // {tokens, token_logprobs, top_logprobs, text_offset}: the texts of the items of each list.
  struct Logprobs {
    std::string tokens = {};
    std::string values = {};
    std::string tops = {};
    std::vector<std::size_t> offsets = {};

    std::size_t num_bytes() const;
  };
  struct Choice {
    std::string text = {};
    Logprobs logprobs = {};
    std::string prompt_logprobs = {};  // text of the list
    std::size_t offset = 0;            // of the next token in the text, in bytes
    std::string finish_reason = {};
  };

  // is_first: the first token of a prompt, which has no logprob.
  void add_token(Choice& choice,
                 const api::TokenLogprobs& token,
                 Logprobs& out,
                 bool is_first = false) const;
  void add_prompt(Choice& choice, std::size_t prompt, const api::Update& update) const;
  std::string chunk(std::size_t index,
                    const std::string& text,
                    const Logprobs* logprobs,
                    const OrderedJson& finish_reason) const;
  OrderedJson head() const;
  static std::string to_text(const Logprobs& logprobs);
  // logprobs null: the choice has none.
  static JsonObjectText choice_json(std::size_t index,
                                    const std::string& text,
                                    const Logprobs* logprobs,
                                    const OrderedJson& finish_reason);

  Identity identity_;
  CompletionResponseOptions options_;
  std::deque<Choice> choices_;
  std::size_t num_bytes_ = 0;
};

}  // namespace graft::server::openai
