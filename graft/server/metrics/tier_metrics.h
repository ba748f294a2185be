// Metrics of the KV cache tiers in host memory and on disk.

#pragma once

#include <array>
#include <cstdint>

#include "graft/engine/request.h"

namespace graft::server {

struct TierRow {
  const char* name;
  const char* help;
  std::int64_t TierStats::*value;
};

inline constexpr std::array kTierCounters = {
    TierRow{"graft:kv_tier_hits_total", "KV cache blocks found in a tier.", &TierStats::num_hits},
    TierRow{"graft:kv_tier_misses_total", "KV cache blocks of prompts that a tier did not have.",
            &TierStats::num_misses},
    TierRow{"graft:kv_tier_loads_total", "KV cache blocks read from a tier.",
            &TierStats::num_loads},
    TierRow{"graft:kv_tier_stores_total", "KV cache blocks written to a tier.",
            &TierStats::num_stores},
    TierRow{"graft:kv_tier_evictions_total", "KV cache blocks evicted from a tier.",
            &TierStats::num_evictions},
    TierRow{"graft:kv_tier_errors_total",
            "Damaged or unreadable files of KV cache blocks, and failed writes.",
            &TierStats::num_errors},
};

struct TierName {
  const char* name;
  TierStats engine::EngineStats::*stats;
};
inline constexpr std::array kTierNames = {TierName{"host", &engine::EngineStats::host_tier},
                                          TierName{"disk", &engine::EngineStats::disk_tier}};

}  // namespace graft::server
