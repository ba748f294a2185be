// Connects sequences with the tiers of the KV cache: computes the keys of their blocks, looks up
// blocks that the prefix cache lacks, and queues computed blocks for the tiers. Used on the
// engine's thread only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "graft/engine/block_manager.h"
#include "graft/engine/sequence.h"
#include "graft/engine/states/state_slots.h"
#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/kv_tiers.h"
#include "graft/engine/tiers/tier_entry.h"

namespace graft::engine {

class SequenceTiers {
 public:
  struct Sizes {
    std::int64_t block_tokens = 0;
    std::size_t block_bytes = 0;
    std::size_t state_bytes = 0;     // of the recurrent states of a sequence; 0: none
    std::size_t max_fill_bytes = 0;  // loaded in a step: other sequences wait for it
  };
  // `identity` without salt. All must outlive the object; `states` is null without recurrent
  // states.
  SequenceTiers(KvTiers& tiers,
                CacheIdentity identity,
                Sizes sizes,
                const BlockManager& blocks,
                StateSlots* states);

  // Looks up the blocks after the `num_matched` that the sequence has. False: they are being read,
  // ask again later. True: tier.blocks has those that were found, or nothing.
  bool find(Sequence& sequence, std::int64_t num_matched);
  static bool is_loading(const Sequence& sequence);
  // The sequence loses its blocks, or ends.
  static void cancel(Sequence& sequence);

  // Queues the full blocks among the first `num_tokens`, whose steps have ended.
  void queue_blocks(Sequence& sequence, std::int64_t num_tokens);
  // Queues the recurrent states after the first `num_blocks` blocks, of which there is a snapshot.
  void queue_states(Sequence& sequence, std::size_t num_blocks);
  // After a failed step: the contents of queued blocks are unknown.
  void clear_queue();
  std::size_t num_queued() const { return queue_.size(); }

  // A queued block or states, with an entry whose bytes must be copied.
  struct Unstored {
    bool is_state = false;
    BlockId block = 0;  // of the KV cache
    SlotId slot = 0;    // of the recurrent states
    std::shared_ptr<TierEntry> entry;
  };
  // The next ones in the order of the queue that the KV cache still has, at most `max_count`, all
  // blocks or all states. The bytes of their entries are empty.
  std::vector<Unstored> take_queued(std::size_t max_count);

  KvTiers& tiers() { return tiers_; }
  const Sizes& sizes() const { return sizes_; }

 private:
  struct Queued {
    std::uint64_t prefix_id = 0;  // of the block in the prefix cache
    BlockId block = 0;
    bool is_state = false;
    BlockKey key = {};
    BlockKey parent = {};
    std::vector<TokenId> tokens = {};
  };

  void compute_keys(Sequence& sequence, std::size_t num_blocks) const;
  std::span<const TokenId> tokens_of(const Sequence& sequence, std::size_t block) const;
  TierLoad::Item item_of(const Sequence& sequence, std::size_t block) const;
  TierLoad::Item state_item_of(const Sequence& sequence, std::size_t block) const;
  std::size_t find_last(const Sequence& sequence, std::size_t first, std::size_t end);
  void push(Queued queued);
  void take_found(Sequence& sequence) const;

  KvTiers& tiers_;
  CacheIdentity identity_;
  Sizes sizes_;
  const BlockManager& blocks_;
  StateSlots* states_;
  std::deque<Queued> queue_;
  std::unordered_set<BlockKey, BlockKeyHash> queued_keys_;  // of queue_
};

}  // namespace graft::engine
