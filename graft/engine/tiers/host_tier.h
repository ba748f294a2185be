// KV cache blocks in host memory: bounded, least recently used first. Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/tier_entry.h"
#include "graft/llm.h"

namespace graft::engine {

using graft::TierStats;

class HostTier {
 public:
  explicit HostTier(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // No effect when the key is stored already, or the entry is larger than the tier.
  void store(TierEntryPtr entry);
  bool contains(const BlockKey& key) const;
  // Now the most recently used entry; null: not found.
  TierEntryPtr find(const TierQuery& query);

  void count_misses(std::int64_t count);

  TierStats stats() const;

 private:
  using Order = std::list<TierEntryPtr>;  // most recently used first

  static std::uint64_t size_of(const TierEntry& entry);

  const std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  Order order_;
  std::unordered_map<BlockKey, Order::iterator, BlockKeyHash> by_key_;
  TierStats stats_;
};

}  // namespace graft::engine
