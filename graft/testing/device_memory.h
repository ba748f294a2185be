// For tests: the memory of devices without hardware (device.h). It is host memory, counted per
// device; operators take as much of it as those of a GPU would.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/check.h"
#include "graft/ops/weight.h"
#include "graft/tensor/device_memory.h"
#include "graft/tensor/tensor.h"

namespace graft::ops::testing {

// Tracks allocations, and so the device of every address.
class TestMemory final : public DeviceMemory {
 public:
  std::byte* allocate(std::int32_t index, std::size_t bytes) override {
    if (bytes > available(index)) return nullptr;
    allocated_[index] += bytes;
    auto* data = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
    blocks_[data] = {.index = index, .bytes = bytes};
    return data;
  }
  void free(std::int32_t index, std::byte* data, std::size_t bytes) noexcept override {
    const auto found = blocks_.find(data);
    GRAFT_CHECK(
        found != blocks_.end() && found->second.index == index && found->second.bytes == bytes,
        "not an allocated block");
    blocks_.erase(found);
    allocated_[index] -= bytes;
    ::operator delete (data, std::align_val_t{64});
  }
  std::uint64_t available(std::int32_t index) override {
    return capacity_ - std::min(capacity_, allocated_[index]);
  }
  std::uint64_t allocated(std::int32_t index) const {
    const auto found = allocated_.find(index);
    return found == allocated_.end() ? 0 : found->second;
  }
  // The capacity of each device in bytes.
  void set_capacity(std::uint64_t bytes) { capacity_ = bytes; }
  std::byte* allocate_staging(std::int32_t /*index*/, std::size_t bytes) override {
    ++num_staging_;
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
  }
  void free_staging(std::int32_t /*index*/,
                    std::byte* data,
                    std::size_t /*bytes*/) noexcept override {
    --num_staging_;
    ::operator delete (data, std::align_val_t{64});
  }

  bool has(Device device, const TensorView& view) const {
    const auto* data = static_cast<const std::byte*>(view.data);
    auto found = blocks_.upper_bound(data);
    if (found == blocks_.begin()) return device == kCpu;
    --found;
    const bool is_inside = data + view.bytes() <= found->first + found->second.bytes;
    if (!is_inside) return device == kCpu;
    return device.type == DeviceType::Cuda && device.index == found->second.index;
  }
  std::size_t num_blocks() const { return blocks_.size() + num_staging_; }

 private:
  struct Block {
    std::int32_t index = 0;
    std::size_t bytes = 0;
  };
  std::uint64_t capacity_ = std::uint64_t{1} << 30U;
  std::map<std::int32_t, std::uint64_t> allocated_;
  std::map<const std::byte*, Block> blocks_;
  std::atomic<std::size_t> num_staging_ = 0;  // other threads allocate it too
};

inline TestMemory& test_memory() {
  static TestMemory memory;
  return memory;
}

// Counts the bytes of the weights that a GPU operator would hold: matrices as they are stored,
// vectors in f32.
class CountingWeights final : public WeightProvider {
 public:
  explicit CountingWeights(WeightProvider& from) : from_(from) {}

  Weight get(std::string_view name) override { return counted(from_.get(name)); }
  bool contains(std::string_view name) override { return from_.contains(name); }
  std::vector<Weight> experts(std::string_view experts, std::string_view projection) override {
    std::vector<Weight> weights = from_.experts(experts, projection);
    std::ranges::for_each(weights, [&](const Weight& weight) { counted(weight); });
    return weights;
  }
  packing::Packer* packer() override { return from_.packer(); }
  void release(const Weight& weight) override { from_.release(weight); }
  void warn(const std::string& line) override { from_.warn(line); }
  std::size_t bytes() const { return bytes_; }

 private:
  Weight counted(const Weight& weight) {
    const auto rows = static_cast<std::size_t>(weight.rows());
    bytes_ += weight.shape.size() < 2 ? static_cast<std::size_t>(weight.cols()) * sizeof(float)
                                      : rows * weight.row_bytes();
    return weight;
  }

  WeightProvider& from_;
  std::size_t bytes_ = 0;
};

}  // namespace graft::ops::testing
