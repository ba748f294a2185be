// A ring of slots in GPU memory through which groups of experts pass, filled by a copy stream while
// the GPU computes with earlier slots. All streamed layers of a model share the ring of their GPU:
// the last groups of a layer are computed while the first of the next one are copied.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/experts/expert_copies.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class ExpertRing {
 public:
  // A group of a layer.
  struct Key {
    std::uint64_t layer = 0;  // 0: none
    std::int64_t group = 0;

    bool operator==(const Key&) const = default;
  };

  explicit ExpertRing(Device device) : device_(device), copies_(device.index) {}
  ~ExpertRing();
  ExpertRing(const ExpertRing&) = delete;
  ExpertRing& operator=(const ExpertRing&) = delete;

  // Grows to at least two slots of at least slot_bytes, which hold a layer and a slot more where
  // the free memory allows it. Waits for the GPU when it grows.
  void reserve(std::size_t slot_bytes, std::size_t layer_bytes);

  // Slots are filled in ring order. Whether the next one holds nothing that must still be read.
  bool can_start() const { return !slots_[next_].is_pending; }
  // Starts copying a group to the next slot, which `compute` may still be reading.
  void start(Key key, std::span<const HostCopy> copies);
  bool holds(Key key) const { return find(key) != nullptr; }
  // `compute` continues when the group has arrived. The group must have been started.
  std::byte* wait_for(Key key, const CudaStream& compute);
  // After the last kernel that reads the group: its slot may be filled again.
  void release(Key key, const CudaStream& compute);
  // Groups that will not be read, such as those copied in advance for nothing.
  template <class IsWanted>
  void drop_unless(const IsWanted& is_wanted) {
    for (Slot& slot : slots_) {
      if (slot.is_pending && !is_wanted(slot.key)) slot.is_pending = false;
    }
  }

  std::size_t slot_bytes() const { return slot_bytes_; }
  const CudaStream& copy_stream() const { return copies_; }

 private:
  struct Slot {
    Key key;
    bool is_pending = false;  // to be read
    std::unique_ptr<CudaEvent> copied = std::make_unique<CudaEvent>();
    std::unique_ptr<CudaEvent> released = std::make_unique<CudaEvent>();
  };

  const Slot* find(Key key) const;
  Slot& at(Key key);  // aborts when the group was not started
  std::byte* data(const Slot& slot) {
    return memory_.data() + static_cast<std::size_t>(&slot - slots_.data()) * slot_bytes_;
  }

  Device device_;
  CudaStream copies_;
  Buffer memory_;
  std::size_t slot_bytes_ = 0;
  std::size_t layer_bytes_ = 0;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

}  // namespace graft::ops::cuda
