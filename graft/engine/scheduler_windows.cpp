// Sliding windows in the scheduler: blocks that no layer reads any more are freed, so that a
// sequence needs the blocks of its window and of its next chunk, however long it is.

#include <algorithm>
#include <cstdint>

#include "graft/engine/scheduler.h"
#include "graft/engine/tiers/sequence_tiers.h"

namespace graft::engine {

// A cache that holds no window and a block beside it holds no longer sequences than without.
void Scheduler::use_window(std::int64_t num_tokens) {
  window_ = num_tokens;
  const std::int64_t beside_window =
      (blocks_.num_blocks() - 1) * blocks_.block_tokens() - (num_tokens - 1);
  max_chunk_ = std::min(config_.chunk_prefill_size, config_.max_num_batched_tokens);
  if (beside_window >= blocks_.block_tokens()) max_chunk_ = std::min(max_chunk_, beside_window);
}

std::int64_t Scheduler::num_out_of_window(std::int64_t num_computed) const {
  return window_ == 0 ? 0 : std::max<std::int64_t>(0, num_computed + 1 - window_);
}

// Tokens in flight count as computed: their step reads the cache before the next one writes.
void Scheduler::release_out_of_window(Sequence& sequence) {
  if (window_ > 0) blocks_.release_before(sequence.table, num_out_of_window(sequence.num_computed));
}

// That a sequence of this many tokens has at a time, computed alone: the window before a chunk and
// the chunk may begin and end inside a block.
std::int64_t Scheduler::max_blocks(std::int64_t num_tokens) const {
  const std::int64_t all = blocks_.blocks_for(num_tokens);
  return window_ == 0 ? all : std::min(all, blocks_.blocks_for(window_ - 1 + max_chunk_) + 1);
}

// That a waiting sequence must get to run to its end. Blocks from tiers are all filled before the
// first of them is freed.
std::int64_t Scheduler::num_missing_blocks(const Sequence& sequence) const {
  const std::int64_t held = sequence.table.num_held();
  const std::int64_t all = blocks_.blocks_for(sequence.num_tokens()) - sequence.table.num_released;
  std::int64_t needed = max_blocks(sequence.num_tokens());
  const auto num_found = static_cast<std::int64_t>(sequence.tier.blocks.size());
  if (num_found > 0)
    needed = std::max(needed, held + num_found + blocks_.blocks_for(max_chunk_) + 1);
  return std::min(all, needed) - held;
}

// Of blocks from tiers, keeps those that fit into the cache beside a chunk: with a window, the
// sequence may be longer than the cache.
void Scheduler::limit_found(Sequence& sequence) const {
  if (window_ == 0 || sequence.tier.blocks.empty()) return;
  const std::int64_t room =
      blocks_.num_blocks() - sequence.table.num_held() - blocks_.blocks_for(max_chunk_) - 1;
  const auto num_found = static_cast<std::int64_t>(sequence.tier.blocks.size());
  if (num_found <= room) return;
  const bool has_states = states_ != nullptr;
  sequence.tier.blocks.resize(
      has_states ? 0 : static_cast<std::size_t>(std::max<std::int64_t>(room, 0)));
  sequence.tier.state = nullptr;
}

}  // namespace graft::engine
