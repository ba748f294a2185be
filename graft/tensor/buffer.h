// Owned memory on a device. Move-only; aligned for any vector instruction.

#pragma once

#include <cstddef>
#include <span>

#include "graft/tensor/device.h"

namespace graft {

class Buffer {
 public:
  Buffer() = default;
  // Throws Error with the number of bytes when the device is out of memory.
  explicit Buffer(std::size_t bytes, Device device = kCpu);
  // Pinned host memory for asynchronous copies to and from `device`.
  static Buffer staging(std::size_t bytes, Device device);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  Device device() const { return device_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
  Device staging_for_;  // cpu: not a staging buffer
};

}  // namespace graft
