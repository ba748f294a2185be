// Sampling and context options of `graft run` and `graft chat`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/cli/command.h"
#include "graft/cli/options/speculate_option.h"
#include "graft/cli/options/tier_options.h"
#include "graft/models/config/model_config.h"

namespace graft::cli {

// For models without sampling defaults of their own.
inline constexpr double kTemperature = 0.6;
inline constexpr double kTopP = 0.95;

struct SamplingOptions {
  // Unset: the value of the model's generation_config.json, else kTemperature and so on.
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
  // Unset: off.
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> max_new_tokens;
  std::string think;  // "on", "off", "": the model decides
  std::string chat_template;
  std::string system;
  // Files and a pattern, of which one may be given.
  std::string json_schema;
  std::string grammar;
  std::string regex;

  void add_to(Command& command);
  void add_structured_to(Command& command);
  // With the defaults of the model. Throws Error when a file cannot be read.
  api::SamplingParams params(const models::ModelConfig& config) const;
  api::Thinking thinking() const;
  // What the flags set, as fields of OpenAI's requests, without the system prompt. Throws Error
  // when a file cannot be read.
  OrderedJson request_fields() const;
};

// Engine limits.
struct ContextOptions {
  std::int64_t max_model_len = 0;
  std::int64_t chunk_prefill = 0;
  TierOptions tiers = {};
  SpeculateOption speculate = {};

  void add_to(Command& command);
  void apply_to(api::EngineConfig& config) const;
};

}  // namespace graft::cli
