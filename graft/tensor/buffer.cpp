#include "graft/tensor/buffer.h"

#include <array>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "graft/base/check.h"
#include "graft/base/out_of_memory.h"
#include "graft/base/text/units.h"
#include "graft/tensor/device_memory.h"

namespace graft {
namespace {

// Bytes of a cache line and of an AVX-512 register.
constexpr std::size_t kCacheLine = 64;
// Large buffers request 2 MiB pages: hardware prefetch stops at page boundaries, and a 2 MiB page
// has 512 times fewer of them than 4 KiB pages.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t alignment_of(std::size_t bytes) {
  return bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
}

std::byte* allocate_host(std::size_t bytes) {
  const std::size_t alignment = alignment_of(bytes);
  void* data = ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
  if (data != nullptr && alignment == kHugePage)
    ::madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

std::array<DeviceMemory*, 2>& memories() {
  static std::array<DeviceMemory*, 2> by_type = {};
  return by_type;
}

DeviceMemory& memory_of(Device device) {
  DeviceMemory* memory = device_memory(device.type);
  GRAFT_CHECK(memory != nullptr, "no allocator registered for ", to_string(device));
  return *memory;
}

}  // namespace

void set_device_memory(DeviceType type, DeviceMemory* memory) {
  memories()[static_cast<std::size_t>(type)] = memory;
}

DeviceMemory* device_memory(DeviceType type) {
  return memories()[static_cast<std::size_t>(type)];
}

Buffer::Buffer(std::size_t bytes, Device device) : size_(bytes), device_(device) {
  if (bytes == 0) return;
  data_ = device.type == DeviceType::Cpu ? allocate_host(bytes)
                                         : memory_of(device).allocate(device.index, bytes);
  if (data_ != nullptr) return;
  if (device.type == DeviceType::Cpu)
    fail_out_of_memory("cpu: cannot allocate ", bytes_text(bytes));
  fail_out_of_memory(to_string(device), ": cannot allocate ", bytes_text(bytes), ", ",
                     bytes_text(memory_of(device).available(device.index)), " are free");
}

Buffer Buffer::staging(std::size_t bytes, Device device) {
  if (device.type == DeviceType::Cpu || bytes == 0) return Buffer(bytes);
  Buffer buffer;
  buffer.data_ = memory_of(device).allocate_staging(device.index, bytes);
  if (buffer.data_ == nullptr) {
    fail_out_of_memory("cannot allocate ", bytes_text(bytes), " of pinned host memory for ",
                       to_string(device));
  }
  buffer.size_ = bytes;
  buffer.staging_for_ = device;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      device_(other.device_),
      staging_for_(other.staging_for_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  std::swap(staging_for_, other.staging_for_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (staging_for_.type != DeviceType::Cpu) {
    memory_of(staging_for_).free_staging(staging_for_.index, data_, size_);
  } else if (device_.type != DeviceType::Cpu) {
    memory_of(device_).free(device_.index, data_, size_);
  } else {
    ::operator delete (data_, std::align_val_t{alignment_of(size_)});
  }
}

}  // namespace graft
