// Recurrent states in the scheduler: slots of sequences, and snapshots beside the prefix cache.
//
// A step writes snapshots where later prompts may continue: after the last full block of a prompt,
// after the blocks that it shares with another prompt, and after every full block of output, of
// which a sequence keeps the last one. They can be matched from the next step on.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graft/engine/scheduler.h"
#include "graft/engine/tiers/sequence_tiers.h"

namespace graft::engine {

void Scheduler::start_states(Step& step, Sequence& sequence) {
  if (states_ == nullptr) return;
  if (sequence.state_slot == kNoSlot) {
    sequence.state_slot = states_->allocate();
  } else if (sequence.is_state_reserved) {
    states_->keep_reserved();
  }
  sequence.is_state_reserved = false;
  copy_matched(step, sequence);
}

void Scheduler::copy_matched(Step& step, Sequence& sequence) const {
  const SlotId from = std::exchange(sequence.matched_slot, kNoSlot);
  // The slot of an evicted snapshot may have become that of the sequence.
  if (from == kNoSlot || from == sequence.state_slot) return;
  step.schedule.state_copies.push_back({.from = from, .to = sequence.state_slot});
}

// Its snapshots are of steps that were started, so they stay.
void Scheduler::free_states(Sequence& sequence) {
  if (states_ == nullptr) return;
  add_snapshots(sequence);
  for (const Sequence::PendingSnapshot& pending : sequence.pending_snapshots)
    states_->free_reserved(pending.slot);
  sequence.pending_snapshots.clear();
  queue_decode_states(sequence);
  sequence.decode_snapshot = 0;
  sequence.matched_slot = kNoSlot;
  const SlotId slot = std::exchange(sequence.state_slot, kNoSlot);
  if (slot == kNoSlot) return;
  if (std::exchange(sequence.is_state_reserved, false)) {
    states_->free_reserved(slot);
  } else {
    states_->free(slot);
  }
}

// Of the states after blocks of output, tiers get the last ones: when the sequence ends or is
// preempted.
void Scheduler::queue_decode_states(Sequence& sequence) {
  if (tiers_ == nullptr || sequence.decode_snapshot == 0) return;
  const std::vector<std::uint64_t>& ids = sequence.table.prefix_ids;
  const auto found = std::ranges::find(ids, sequence.decode_snapshot);
  if (found == ids.end()) return;
  tiers_->queue_states(sequence, static_cast<std::size_t>(found - ids.begin()) + 1);
}

// Adds the snapshots whose blocks are registered by now: those of tokens in flight are later.
void Scheduler::add_snapshots(Sequence& sequence) {
  const auto is_added = [&](const Sequence::PendingSnapshot& pending) {
    const auto num_blocks = static_cast<std::size_t>(pending.num_tokens / blocks_.block_tokens());
    if (num_blocks > sequence.table.prefix_ids.size()) return false;
    const std::uint64_t prefix_id = sequence.table.prefix_ids[num_blocks - 1];
    states_->add_snapshot(prefix_id, pending.slot);
    if (pending.num_tokens <= sequence.num_prompt) {
      if (tiers_ != nullptr) tiers_->queue_states(sequence, num_blocks);
      return true;
    }
    const std::uint64_t before = std::exchange(sequence.decode_snapshot, prefix_id);
    if (before != 0 && before != prefix_id) states_->drop_snapshot(before);
    return true;
  };
  std::erase_if(sequence.pending_snapshots, is_added);
}

void Scheduler::discard_pending_snapshots() {
  for (Sequence* sequence : running_) {
    for (const Sequence::PendingSnapshot& pending : sequence->pending_snapshots)
      states_->free_reserved(pending.slot);
    sequence->pending_snapshots.clear();
  }
}

void Scheduler::plan_checkpoints(ScheduledSequence& scheduled) {
  const Sequence& sequence = *scheduled.sequence;
  if (!config_.enable_prefix_caching || sequence.is_embedding()) return;
  const std::int64_t size = blocks_.block_tokens();
  const std::int64_t end = sequence.num_computed + scheduled.num_tokens;
  if (end > sequence.num_prompt) {
    if (end % size == 0) add_checkpoint(scheduled, end);
    return;
  }
  // The block of the last token is never matched.
  const std::int64_t last = (sequence.num_prompt - 1) / size * size;
  if (sequence.num_known < last) add_checkpoint(scheduled, sequence.num_known);
  add_checkpoint(scheduled, last);
}

// Nothing when the step does not compute the token before, the prefix has a snapshot, or too many
// slots are reserved.
void Scheduler::add_checkpoint(ScheduledSequence& scheduled, std::int64_t num_tokens) {
  Sequence& sequence = *scheduled.sequence;
  const std::int64_t in_step = num_tokens - sequence.num_computed;
  if (in_step <= 0 || in_step > scheduled.num_tokens) return;
  const auto num_blocks = static_cast<std::size_t>(num_tokens / blocks_.block_tokens());
  const std::vector<std::uint64_t>& ids = sequence.table.prefix_ids;
  if (num_blocks <= ids.size() && states_->has_snapshot(ids[num_blocks - 1])) return;
  const std::optional<SlotId> slot = states_->reserve();
  if (!slot) return;
  scheduled.checkpoints.push_back({.num_tokens = in_step, .slot = *slot});
  sequence.pending_snapshots.push_back({.num_tokens = num_tokens, .slot = *slot});
}

}  // namespace graft::engine
