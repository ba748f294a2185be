// Sampling and context options of `graft run` and `graft chat`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/cli/command.h"
#include "graft/cli/options/tier_options.h"

namespace graft::cli {

struct SamplingOptions {
  double temperature = 0.6;
  double top_p = 0.95;
  std::int64_t top_k = 0;
  double min_p = 0;
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
  // Throws Error when a file cannot be read.
  api::SamplingParams params() const;
  api::Thinking thinking() const;
};

// Engine limits.
struct ContextOptions {
  std::int64_t max_model_len = 0;
  std::int64_t chunk_prefill = 0;
  TierOptions tiers = {};

  void add_to(Command& command);
  void apply_to(api::EngineConfig& config) const;
};

}  // namespace graft::cli
