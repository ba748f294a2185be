#include "graft/engine/states/state_slots.h"

#include "graft/base/check.h"

namespace graft::engine {

StateSlots::StateSlots(std::int64_t num_slots, std::int64_t num_sequences)
    : num_slots_(num_slots), max_reserved_(num_slots - num_sequences) {
  GRAFT_CHECK(num_sequences >= 1 && max_reserved_ >= 0, num_slots, " slots for ", num_sequences,
              " sequences");
  for (auto slot = static_cast<SlotId>(num_slots); slot > 0; --slot)
    free_.push_back(slot - 1);
}

SlotId StateSlots::take() {
  if (free_.empty()) {
    GRAFT_CHECK(!snapshots_.empty(), "no slot of ", num_slots_, " is free");
    drop_snapshot(snapshots_.back().prefix_id);
  }
  const SlotId slot = free_.back();
  free_.pop_back();
  return slot;
}

SlotId StateSlots::allocate() {
  return take();
}

std::optional<SlotId> StateSlots::reserve() {
  if (num_reserved_ >= max_reserved_ || (free_.empty() && snapshots_.empty())) return std::nullopt;
  ++num_reserved_;
  return take();
}

void StateSlots::free_reserved(SlotId slot) {
  --num_reserved_;
  free(slot);
}

void StateSlots::add_snapshot(std::uint64_t prefix_id, SlotId slot) {
  drop_snapshot(prefix_id);
  --num_reserved_;
  snapshots_.push_front({.prefix_id = prefix_id, .slot = slot});
  by_prefix_[prefix_id] = snapshots_.begin();
}

SlotId StateSlots::use_snapshot(std::uint64_t prefix_id) {
  const auto found = by_prefix_.at(prefix_id);
  snapshots_.splice(snapshots_.begin(), snapshots_, found);
  return found->slot;
}

void StateSlots::drop_snapshot(std::uint64_t prefix_id) {
  const auto found = by_prefix_.find(prefix_id);
  if (found == by_prefix_.end()) return;
  free(found->second->slot);
  snapshots_.erase(found->second);
  by_prefix_.erase(found);
}

void StateSlots::drop_snapshots() {
  while (!snapshots_.empty())
    drop_snapshot(snapshots_.back().prefix_id);
}

}  // namespace graft::engine
