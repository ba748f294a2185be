// Slots of the recurrent states: one per running sequence. The other slots hold snapshots beside
// the prefix cache: the states after the tokens of a prefix, found by the id that BlockManager
// gives the prefix's last block. Snapshots are evicted least recently used first.
//
// Works on ids only; the model owns the memory.

#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace graft::engine {

using SlotId = std::int32_t;
inline constexpr SlotId kNoSlot = -1;

// Before the step, the states of slot `from` must be copied to `to`.
struct StateCopy {
  SlotId from = 0;
  SlotId to = 0;
};

class StateSlots {
 public:
  // `num_sequences` of the slots are never reserved: as many sequences can always run.
  StateSlots(std::int64_t num_slots, std::int64_t num_sequences);

  // For a sequence that runs; evicts a snapshot when no slot is free.
  SlotId allocate();
  // A slot that is filled before its owner runs or becomes a snapshot; nullopt: too many are
  // reserved.
  std::optional<SlotId> reserve();
  // A reserved slot becomes that of a running sequence.
  void keep_reserved() { --num_reserved_; }
  void free(SlotId slot) { free_.push_back(slot); }
  void free_reserved(SlotId slot);

  // Hands over a reserved slot as the snapshot of a prefix; an older one of the prefix is freed.
  void add_snapshot(std::uint64_t prefix_id, SlotId slot);
  bool has_snapshot(std::uint64_t prefix_id) const { return by_prefix_.contains(prefix_id); }
  // The slot of a snapshot that exists, which is now the most recently used one.
  SlotId use_snapshot(std::uint64_t prefix_id);
  void drop_snapshot(std::uint64_t prefix_id);  // none: no effect
  void drop_snapshots();

  std::int64_t num_slots() const { return num_slots_; }
  std::int64_t num_snapshots() const { return static_cast<std::int64_t>(snapshots_.size()); }
  // Neither a sequence's nor a snapshot.
  const std::vector<SlotId>& free_slots() const { return free_; }

 private:
  struct Snapshot {
    std::uint64_t prefix_id;
    SlotId slot;
  };

  SlotId take();

  std::int64_t num_slots_;
  std::int64_t max_reserved_;
  std::int64_t num_reserved_ = 0;
  std::vector<SlotId> free_;
  std::list<Snapshot> snapshots_;  // most recently used first
  std::unordered_map<std::uint64_t, std::list<Snapshot>::iterator> by_prefix_;
};

}  // namespace graft::engine
