// A model in memory: the LLM, its chat format and the slots reserved by requests.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/server/models/model_info.h"
#include "graft/server/models/model_slots.h"

namespace graft::server {

class LoadedModel {
 public:
  // Throws Error.
  LoadedModel(ModelInfo info, const api::LlmConfig& config, const std::string& chat_template);

  const ModelInfo& info() const { return info_; }
  const std::string& name() const { return info_.name; }
  api::LLM& llm() { return llm_; }
  const api::LLM& llm() const { return llm_; }
  const api::ChatFormat& format() const;          // throws ApiError for a model without a tokenizer
  const tokenizer::Tokenizer& tokenizer() const;  // throws likewise
  double load_seconds() const { return load_seconds_; }
  // Unique in the process: another one when the model is loaded again.
  std::uint64_t serial() const { return serial_; }

  // Reserved by requests before they are submitted.
  ModelSlots& slots() { return slots_; }

 private:
  ModelInfo info_;
  const std::uint64_t serial_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  api::LLM llm_;
  double load_seconds_;
  std::optional<api::ChatFormat> format_;
  ModelSlots slots_;
};

}  // namespace graft::server
