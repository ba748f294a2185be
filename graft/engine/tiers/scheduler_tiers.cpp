// Tiers in the scheduler. A waiting sequence whose blocks are read from disk keeps neither slot nor
// blocks. When they have arrived it runs, and steps put them into the KV cache before they compute
// anything for it, a limited number of bytes per step: other sequences do not wait for long copies.

#include <cstddef>
#include <cstdint>

#include "graft/engine/scheduler.h"
#include "graft/engine/tiers/sequence_tiers.h"

namespace graft::engine {

bool Scheduler::is_loading(const Sequence& sequence) const {
  return tiers_ != nullptr && SequenceTiers::is_loading(sequence);
}

std::int64_t Scheduler::num_loading() const {
  std::int64_t count = 0;
  for (const auto& [client, sequences] : waiting_.by_client()) {
    for (const Sequence* sequence : sequences)
      count += is_loading(*sequence) ? 1 : 0;
  }
  return count;
}

bool Scheduler::find_in_tiers(Sequence& sequence) {
  if (tiers_ == nullptr || needs_every_position(sequence)) return true;
  const auto num_matched = static_cast<std::int64_t>(sequence.table.blocks.size());
  // A restored sequence has a part of a block.
  if (sequence.num_computed != num_matched * blocks_.block_tokens()) return true;
  return tiers_->find(sequence, num_matched);
}

std::int64_t Scheduler::num_tier_tokens(const Sequence& sequence) const {
  return static_cast<std::int64_t>(sequence.tier.blocks.size()) * blocks_.block_tokens();
}

// With recurrent states all at once: a prefix without its states cannot be continued.
bool Scheduler::fill_from_tiers(Step& step, Sequence& sequence) {
  Sequence::Tier& tier = sequence.tier;
  for (; tier.num_filled < tier.blocks.size(); ++tier.num_filled) {
    TierEntryPtr& entry = tier.blocks[tier.num_filled];
    const std::size_t num_bytes = entry->bytes.size();
    const bool is_full =
        step.num_fill_bytes > 0 && step.num_fill_bytes + num_bytes > tiers_->sizes().max_fill_bytes;
    if (is_full && states_ == nullptr) return false;
    step.num_fill_bytes += num_bytes;
    const BlockId block = sequence.table.blocks[tier.first_block + tier.num_filled];
    step.schedule.loads.push_back({.to = block, .entry = std::move(entry)});
    sequence.num_computed += blocks_.block_tokens();
    blocks_.register_full(sequence.table, sequence.tokens, sequence.num_computed);
  }
  if (tier.state) {
    step.schedule.state_loads.push_back(
        {.to = sequence.state_slot, .entry = std::move(tier.state)});
  }
  tier.blocks.clear();
  tier.num_filled = 0;
  tier.state = nullptr;
  return true;
}

}  // namespace graft::engine
