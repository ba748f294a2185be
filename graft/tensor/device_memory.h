// Memory of devices other than the processor. Whoever brings a kind of device says how to take and
// give it back; Buffer asks here.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/tensor/device.h"

namespace graft {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Null when there is not enough.
  virtual std::byte* take(std::int32_t index, std::size_t bytes) = 0;
  virtual void free(std::int32_t index, std::byte* data, std::size_t bytes) noexcept = 0;
  virtual std::uint64_t available(std::int32_t index) = 0;  // bytes that could be taken now
  // Memory of the processor that the device copies to and from while both go on with other work.
  virtual std::byte* allocate_staging(std::int32_t index, std::size_t bytes) = 0;
  virtual void free_staging(std::int32_t index, std::byte* data, std::size_t bytes) noexcept = 0;
};

// Of all devices of a type; null: there are none. It stays until buffers of that type are gone, and
// is not owned. Once for each type, before the first buffer.
void set_device_memory(DeviceType type, DeviceMemory* memory);
DeviceMemory* device_memory(DeviceType type);

}  // namespace graft
