// Connects sequences with the tiers of the KV cache: computes the keys of their blocks, looks up
// blocks that the prefix cache lacks, and queues computed blocks for the tiers. Used on the
// engine's thread only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
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
    std::size_t state_bytes = 0;  // of the recurrent states of a sequence; 0: none
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

  // Copies queued blocks that are still in the KV cache to the tiers until `is_over`.
  struct Copy {
    std::function<void(BlockId block, std::span<std::byte> out)> block;
    std::function<void(SlotId slot, std::span<std::byte> out)> state;
    std::function<bool()> is_over;
  };
  void store_queued(const Copy& copy);

  KvTiers& tiers() { return tiers_; }

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
