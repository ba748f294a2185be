// Metrics of speculation, with vLLM's names.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "graft/engine/request.h"

namespace graft::server {

struct SpeculationRow {
  const char* name;
  const char* help;
  std::int64_t SpeculationStats::*value;
};

inline constexpr std::array kSpeculationCounters = {
    SpeculationRow{"vllm:spec_decode_num_drafts_total",
                   "Drafts: guessed tokens of a sequence that a step verified.",
                   &SpeculationStats::num_drafts},
    SpeculationRow{"vllm:spec_decode_num_draft_tokens_total", "Guessed tokens that were verified.",
                   &SpeculationStats::num_draft_tokens},
    SpeculationRow{"vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that were right.",
                   &SpeculationStats::num_accepted_tokens},
};

inline void add_to(SpeculationStats& sum, const SpeculationStats& stats) {
  for (const SpeculationRow& row : kSpeculationCounters)
    sum.*(row.value) += stats.*(row.value);
  auto& positions = sum.accepted_by_position;
  positions.resize(std::max(positions.size(), stats.accepted_by_position.size()));
  for (std::size_t i = 0; i < stats.accepted_by_position.size(); ++i)
    positions[i] += stats.accepted_by_position[i];
}

}  // namespace graft::server
