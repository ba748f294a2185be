#include "graft/engine/tiers/sequence_tiers.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace graft::engine {

SequenceTiers::SequenceTiers(KvTiers& tiers,
                             CacheIdentity identity,
                             Sizes sizes,
                             const BlockManager& blocks,
                             StateSlots* states)
    : tiers_(tiers),
      identity_(std::move(identity)),
      sizes_(sizes),
      blocks_(blocks),
      states_(states) {}

void SequenceTiers::compute_keys(Sequence& sequence, std::size_t num_blocks) const {
  Sequence::Tier& tier = sequence.tier;
  if (tier.keys.empty() || tier.root_id != sequence.table.root_id) {
    CacheIdentity identity = identity_;
    identity.salt = sequence.table.root_id;
    identity.uses_long_rope = sequence.uses_long_rope;
    tier.root_id = identity.salt;
    tier.keys = {root_key(identity)};
  }
  while (tier.keys.size() <= num_blocks)
    tier.keys.push_back(child_key(tier.keys.back(), tokens_of(sequence, tier.keys.size() - 1)));
}

std::span<const TokenId> SequenceTiers::tokens_of(const Sequence& sequence,
                                                  std::size_t block) const {
  const auto size = static_cast<std::size_t>(sizes_.block_tokens);
  return std::span(sequence.tokens).subspan(block * size, size);
}

TierLoad::Item SequenceTiers::item_of(const Sequence& sequence, std::size_t block) const {
  const std::span<const TokenId> tokens = tokens_of(sequence, block);
  return {.key = sequence.tier.keys[block + 1],
          .parent = sequence.tier.keys[block],
          .tokens = {tokens.begin(), tokens.end()},
          .num_bytes = sizes_.block_bytes};
}

TierLoad::Item SequenceTiers::state_item_of(const Sequence& sequence, std::size_t block) const {
  TierLoad::Item item = item_of(sequence, block);
  item.parent = item.key;
  item.key = state_key(item.key);
  item.num_bytes = sizes_.state_bytes;
  return item;
}

// The end of the blocks from `first` on that are in the tiers; with recurrent states, up to the
// last block with states.
std::size_t SequenceTiers::find_last(const Sequence& sequence, std::size_t first, std::size_t end) {
  std::size_t known = first;
  while (known < end && tiers_.contains(sequence.tier.keys[known + 1]))
    ++known;
  tiers_.count_misses(static_cast<std::int64_t>(end - known));
  if (states_ == nullptr) return known;
  while (known > first && !tiers_.contains(state_key(sequence.tier.keys[known])))
    --known;
  return known;
}

bool SequenceTiers::is_loading(const Sequence& sequence) {
  return sequence.tier.load != nullptr && !sequence.tier.load->is_done();
}

void SequenceTiers::cancel(Sequence& sequence) {
  if (sequence.tier.load) sequence.tier.load->take();
  std::vector<BlockKey> keys = std::move(sequence.tier.keys);
  sequence.tier = {.keys = std::move(keys), .root_id = sequence.tier.root_id};
}

bool SequenceTiers::find(Sequence& sequence, std::int64_t num_matched) {
  Sequence::Tier& tier = sequence.tier;
  const auto first = static_cast<std::size_t>(num_matched);
  if (is_loading(sequence)) return false;
  if (tier.load) take_found(sequence);
  // The prefix cache may have lost blocks before those that were loaded, or gained some of them.
  if (tier.is_found && first < tier.first_block) cancel(sequence);
  if (tier.is_found) {
    const std::size_t num_gained = std::min(first - tier.first_block, tier.blocks.size());
    tier.blocks.erase(tier.blocks.begin(),
                      tier.blocks.begin() + static_cast<std::ptrdiff_t>(num_gained));
    if (tier.blocks.empty()) tier.state = nullptr;
    tier.first_block = first;
    return true;
  }
  tier.is_found = true;
  tier.first_block = first;
  // Never the block of the last token: its logits must be computed.
  const std::size_t end =
      (sequence.tokens.size() - 1) / static_cast<std::size_t>(sizes_.block_tokens);
  if (end <= first) return true;
  compute_keys(sequence, end);
  const std::size_t last = find_last(sequence, first, end);
  if (last == first) return true;
  std::vector<TierLoad::Item> items;
  for (std::size_t block = first; block < last; ++block)
    items.push_back(item_of(sequence, block));
  if (states_ != nullptr) items.push_back(state_item_of(sequence, last - 1));
  tier.load =
      tiers_.load(std::move(items), static_cast<std::int64_t>(last - first) * sizes_.block_tokens);
  if (is_loading(sequence)) return false;
  if (tier.load) take_found(sequence);
  return true;
}

void SequenceTiers::take_found(Sequence& sequence) const {
  Sequence::Tier& tier = sequence.tier;
  const std::shared_ptr<TierLoad> load = std::exchange(tier.load, nullptr);
  tier.blocks = load->take();
  if (states_ == nullptr) return;
  // Blocks without the states after them are of no use.
  const bool has_state = !tier.blocks.empty() &&
                         tier.blocks.back()->bytes.size() == sizes_.state_bytes &&
                         tier.blocks.back()->key == state_key(tier.blocks.back()->parent);
  if (!has_state) {
    tier.blocks.clear();
    return;
  }
  tier.state = std::move(tier.blocks.back());
  tier.blocks.pop_back();
}

void SequenceTiers::queue_blocks(Sequence& sequence, std::int64_t num_tokens) {
  const std::int64_t num_full =
      std::min(sequence.table.num_registered, num_tokens / sizes_.block_tokens);
  Sequence::Tier& tier = sequence.tier;
  if (tier.num_queued >= num_full) return;
  compute_keys(sequence, static_cast<std::size_t>(num_full));
  for (; tier.num_queued < num_full; ++tier.num_queued) {
    const auto at = static_cast<std::size_t>(tier.num_queued);
    // Another sequence computed the same tokens at the same time: its block is the registered one.
    if (blocks_.prefix_id(sequence.table.blocks[at]) != sequence.table.prefix_ids[at]) continue;
    if (tiers_.has_stored(tier.keys[at + 1])) continue;
    const std::span<const TokenId> tokens = tokens_of(sequence, at);
    push({.prefix_id = sequence.table.prefix_ids[at],
          .block = sequence.table.blocks[at],
          .key = tier.keys[at + 1],
          .parent = tier.keys[at],
          .tokens = {tokens.begin(), tokens.end()}});
  }
}

// Sequences may share a block that is not stored yet.
void SequenceTiers::push(Queued queued) {
  if (queued_keys_.insert(queued.key).second) queue_.push_back(std::move(queued));
}

void SequenceTiers::clear_queue() {
  queue_.clear();
  queued_keys_.clear();
}

void SequenceTiers::queue_states(Sequence& sequence, std::size_t num_blocks) {
  compute_keys(sequence, num_blocks);
  TierLoad::Item item = state_item_of(sequence, num_blocks - 1);
  if (tiers_.has_stored(item.key)) return;
  push({.prefix_id = sequence.table.prefix_ids[num_blocks - 1],
        .is_state = true,
        .key = item.key,
        .parent = item.parent,
        .tokens = std::move(item.tokens)});
}

std::vector<SequenceTiers::Unstored> SequenceTiers::take_queued(std::size_t max_count) {
  std::vector<Unstored> taken;
  while (!queue_.empty() && taken.size() < max_count) {
    if (!taken.empty() && queue_.front().is_state != taken.front().is_state) break;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    queued_keys_.erase(next.key);
    const bool exists = next.is_state ? states_->has_snapshot(next.prefix_id)
                                      : blocks_.prefix_id(next.block) == next.prefix_id;
    if (!exists || tiers_.has_stored(next.key)) continue;
    taken.push_back(
        {.is_state = next.is_state,
         .block = next.block,
         .slot = next.is_state ? states_->use_snapshot(next.prefix_id) : 0,
         .entry = std::make_shared<TierEntry>(TierEntry{.key = next.key,
                                                        .parent = next.parent,
                                                        .tokens = std::move(next.tokens),
                                                        .bytes = {}})});
  }
  return taken;
}

}  // namespace graft::engine
