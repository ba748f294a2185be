// A model that answers: the LLM, how it writes conversations, and how many answers it has promised.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/server/models/model_info.h"

namespace graft::server {

class LoadedModel {
 public:
  // Throws Error.
  LoadedModel(ModelInfo info, const api::LlmConfig& config, const std::string& chat_template);

  const ModelInfo& info() const { return info_; }
  const std::string& name() const { return info_.name; }
  api::LLM& llm() { return llm_; }
  const api::ChatFormat& format() const;          // throws ApiError for a model without a tokenizer
  const tokenizer::Tokenizer& tokenizer() const;  // likewise
  double load_seconds() const { return load_seconds_; }

  // Takes places for so many answers, until the last copy of what it gives is gone. Throws ApiError
  // 429 when too many wait already.
  std::shared_ptr<void> admit(std::int64_t num_answers, std::int64_t max_waiting);

 private:
  ModelInfo info_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  api::LLM llm_;
  double load_seconds_;
  std::optional<api::ChatFormat> format_;
  // Places may outlive the model by a little.
  std::shared_ptr<std::atomic<std::int64_t>> num_answers_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace graft::server
