// A model in memory: the LLM, its chat format and the slots reserved by requests.

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
  const tokenizer::Tokenizer& tokenizer() const;  // throws likewise
  double load_seconds() const { return load_seconds_; }
  // Unique in the process: another one when the model is loaded again.
  std::uint64_t serial() const { return serial_; }

  // Reserves slots for `num_sequences` until the last copy of the returned handle is destroyed.
  // Throws ApiError 429 when max_num_seqs running and `max_waiting` queued sequences are exceeded.
  std::shared_ptr<void> reserve_slots(std::int64_t num_sequences, std::int64_t max_waiting);

 private:
  ModelInfo info_;
  const std::uint64_t serial_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  api::LLM llm_;
  double load_seconds_;
  std::optional<api::ChatFormat> format_;
  // Shared with the handles of reserve_slots(), which may outlive the model.
  std::shared_ptr<std::atomic<std::int64_t>> num_reserved_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace graft::server
