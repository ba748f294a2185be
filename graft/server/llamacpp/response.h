// The response of /completion and /infill: one JSON object, or server-sent events with one each.

#pragma once

#include <string>
#include <vector>

#include "graft/server/generation/generation.h"

namespace graft::server::llamacpp {

struct ResponseOptions {
  std::string model = {};
  std::string prompt = {};  // its text
  bool is_stream = false;
  bool return_tokens = false;
  bool wants_logprobs = false;
  bool is_prompt_only = false;  // the token that the engine samples is left out
  // The fields of the last object, see Request; empty: all.
  std::vector<std::string> fields = {};
  const tokenizer::Tokenizer* tokenizer = nullptr;
};

class CompletionWriter final : public ResponseWriter {
 public:
  explicit CompletionWriter(ResponseOptions options);

  std::string append(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string error(const std::string& message) override;
  std::size_t num_bytes() const override;

 private:
  std::string probabilities(const api::Update& update) const;

  ResponseOptions options_;
  std::string content_;  // unused when streaming
  std::vector<api::TokenId> tokens_;
  std::string probabilities_;  // text of the list's items; unused when streaming
  std::int64_t num_tokens_ = 0;
  bool has_new_line_ = false;
  api::Finish finish_;
};

}  // namespace graft::server::llamacpp
