#include "graft/engine/tiers/host_tier.h"

#include <iterator>
#include <mutex>
#include <utility>

namespace graft::engine {

std::uint64_t HostTier::size_of(const TierEntry& entry) {
  return entry.bytes.size() + entry.tokens.size() * sizeof(TokenId) + sizeof(TierEntry);
}

void HostTier::store(TierEntryPtr entry) {
  const std::uint64_t size = size_of(*entry);
  if (size > max_bytes_) return;
  Order evicted;  // freed after the lock
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(entry->key)) return;
  while (stats_.bytes + size > max_bytes_) {
    const auto last = std::prev(order_.end());
    stats_.bytes -= size_of(**last);
    by_key_.erase((*last)->key);
    evicted.splice(evicted.begin(), order_, last);
    ++stats_.num_evictions;
  }
  order_.push_front(std::move(entry));
  by_key_[order_.front()->key] = order_.begin();
  stats_.bytes += size;
  ++stats_.num_stores;
}

bool HostTier::contains(const BlockKey& key) const {
  const std::lock_guard lock(mutex_);
  return by_key_.contains(key);
}

TierEntryPtr HostTier::find(const TierQuery& query) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(query.key);
  if (found == by_key_.end() || !matches(**found->second, query)) {
    ++stats_.num_misses;
    return nullptr;
  }
  ++stats_.num_hits;
  order_.splice(order_.begin(), order_, found->second);
  return *found->second;
}

void HostTier::count_misses(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  stats_.num_misses += count;
}

TierStats HostTier::stats() const {
  const std::lock_guard lock(mutex_);
  TierStats stats = stats_;
  stats.capacity = max_bytes_;
  stats.num_blocks = static_cast<std::int64_t>(order_.size());
  stats.num_loads = stats.num_hits;
  return stats;
}

}  // namespace graft::engine
