#include "graft/ops/cuda/experts/expert_ring.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/ops/cuda/runtime/pinned_ranges.h"
#include "graft/tensor/device_memory.h"

namespace graft::ops::cuda {
namespace {

// Copies go on while the GPU computes attention as long as the ring has room: this much on a GPU
// with little memory, on others a share of the free memory, less than what the KV cache leaves.
constexpr std::size_t kMinRingBytes = std::size_t{768} << 20U;
constexpr std::size_t kMemoryShare = 16;

}  // namespace

ExpertRing::~ExpertRing() {
  cudaStreamSynchronize(copies_.get());
}

void ExpertRing::reserve(std::size_t slot_bytes, std::size_t layer_bytes) {
  if (slot_bytes <= slot_bytes_ && layer_bytes <= layer_bytes_) return;
  use_gpu(device_.index);
  check_cuda(cudaDeviceSynchronize(), "waiting for the GPU");
  slot_bytes_ = std::max(slot_bytes, slot_bytes_);
  layer_bytes_ = std::max(layer_bytes, layer_bytes_);
  memory_ = {};
  const std::size_t available = device_memory(DeviceType::Cuda)->available(device_.index);
  const std::size_t bytes =
      std::min(std::max(kMinRingBytes, available / kMemoryShare), layer_bytes_ + slot_bytes_);
  const std::size_t num_slots = std::max<std::size_t>(2, bytes / slot_bytes_);
  memory_ = Buffer(slot_bytes_ * num_slots, device_);
  slots_.clear();
  slots_.resize(num_slots);
  next_ = 0;
}

const ExpertRing::Slot* ExpertRing::find(Key key) const {
  const auto found = std::ranges::find_if(
      slots_, [&](const Slot& slot) { return slot.is_pending && slot.key == key; });
  return found == slots_.end() ? nullptr : &*found;
}

void ExpertRing::start(Key key, std::span<const HostCopy> copies) {
  GRAFT_CHECK(can_start(), "the next slot is still to be read");
  use_gpu(device_.index);
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  slot.released->hold(copies_);
  for (const HostCopy& copy : copies) {
    check_cuda(copy_to_gpu(data(slot) + copy.to, copy.from, copy.bytes, copies_.get()),
               "copying experts to the GPU");
  }
  slot.copied->record(copies_);
  slot.key = key;
  slot.is_pending = true;
}

ExpertRing::Slot& ExpertRing::at(Key key) {
  const Slot* slot = find(key);
  GRAFT_CHECK(slot != nullptr, "group ", key.group, " was not started");
  return slots_[static_cast<std::size_t>(slot - slots_.data())];
}

std::byte* ExpertRing::wait_for(Key key, const CudaStream& compute) {
  const Slot& slot = at(key);
  slot.copied->hold(compute);
  return data(slot);
}

void ExpertRing::release(Key key, const CudaStream& compute) {
  Slot& slot = at(key);
  slot.released->record(compute);
  slot.is_pending = false;
}

}  // namespace graft::ops::cuda
