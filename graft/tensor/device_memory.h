// Allocator interface of devices other than the CPU. A device library registers an implementation;
// Buffer calls it.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/tensor/device.h"

namespace graft {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Allocates `bytes` on device `index`; null when out of memory.
  virtual std::byte* allocate(std::int32_t index, std::size_t bytes) = 0;
  virtual void free(std::int32_t index, std::byte* data, std::size_t bytes) noexcept = 0;
  virtual std::uint64_t available(std::int32_t index) = 0;  // free bytes
  // Pinned host memory for asynchronous copies; null when out of memory.
  virtual std::byte* allocate_staging(std::int32_t index, std::size_t bytes) = 0;
  virtual void free_staging(std::int32_t index, std::byte* data, std::size_t bytes) noexcept = 0;
};

// The allocator of all devices of a type; null when none is registered. Register once per type,
// before the first buffer; not owned, must outlive all buffers of that type.
void set_device_memory(DeviceType type, DeviceMemory* memory);
DeviceMemory* device_memory(DeviceType type);

}  // namespace graft
