#include "graft/tensor/buffer.h"

#include <new>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/units.h"

namespace graft {
namespace {

// A cache line, and the widest vector register.
constexpr std::align_val_t kAlignment{64};

}  // namespace

Buffer::Buffer(std::size_t bytes, Device device) : size_(bytes), device_(device) {
  GRAFT_CHECK(device.type == DeviceType::Cpu, "no runtime for ", to_string(device));
  if (bytes == 0) return;
  data_ = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
  if (data_ == nullptr) fail(to_string(device), ": cannot allocate ", bytes_text(bytes));
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  return *this;
}

Buffer::~Buffer() {
  ::operator delete(data_, kAlignment);
}

}  // namespace graft
