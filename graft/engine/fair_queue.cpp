#include "graft/engine/fair_queue.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "graft/engine/tiers/sequence_tiers.h"

namespace graft::engine {
namespace {

std::int64_t value_or_zero(const std::map<ClientId, std::int64_t>& map, ClientId client) {
  const auto found = map.find(client);
  return found == map.end() ? 0 : found->second;
}

}  // namespace

void FairQueue::insert(Sequence& sequence) {
  if (!served_.contains(sequence.client)) {
    std::int64_t least = served_.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
    for (const auto& [client, num_tokens] : served_)
      least = std::min(least, num_tokens);
    served_[sequence.client] = least;
  }
  size_ += by_client_[sequence.client].insert(&sequence).second ? 1 : 0;
}

void FairQueue::erase(Sequence& sequence) {
  const auto found = by_client_.find(sequence.client);
  if (found == by_client_.end()) return;
  size_ -= found->second.erase(&sequence);
  if (found->second.empty()) by_client_.erase(found);
}

void FairQueue::keep_only(const ClientSlots& running) {
  std::erase_if(served_, [&](const auto& entry) {
    return !by_client_.contains(entry.first) && !running.contains(entry.first);
  });
}

Sequence* FairQueue::next(const ClientSlots& slots,
                          const std::function<bool(const Sequence& sequence)>& is_allowed) const {
  Sequence* best = nullptr;
  const auto key = [&](const Sequence& sequence) {
    return std::tuple(value_or_zero(slots, sequence.client),
                      value_or_zero(served_, sequence.client), sequence.rank());
  };
  for (const auto& [client, sequences] : by_client_) {
    // A sequence that waits for the disk delays no other one of its client.
    const auto first = std::ranges::find_if_not(
        sequences, [](const Sequence* one) { return SequenceTiers::is_loading(*one); });
    if (first == sequences.end() || !is_allowed(**first)) continue;
    if (best == nullptr || key(**first) < key(*best)) best = *first;
  }
  return best;
}

std::map<ClientId, std::int64_t> fair_shares(const std::map<ClientId, std::int64_t>& demands,
                                             std::int64_t budget) {
  std::vector<std::pair<std::int64_t, ClientId>> by_demand;
  by_demand.reserve(demands.size());
  for (const auto& [client, demand] : demands)
    by_demand.emplace_back(demand, client);
  std::ranges::sort(by_demand);
  std::map<ClientId, std::int64_t> shares;
  auto num_left = static_cast<std::int64_t>(by_demand.size());
  for (const auto& [demand, client] : by_demand) {
    const std::int64_t share = std::min(demand, (budget + num_left - 1) / num_left);
    shares[client] = share;
    budget -= share;
    --num_left;
  }
  return shares;
}

}  // namespace graft::engine
