#include "graft/tensor/buffer.h"

#include <new>
#include <utility>

#include <sys/mman.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/units.h"

namespace graft {
namespace {

// A cache line, and the widest vector register.
constexpr std::size_t kAlignment = 64;
// Large buffers come in large pages where the system has them: whoever reads a weight matrix from
// end to end then meets the end of a page, where processors stop reading ahead, 512 times less.
constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t alignment_of(std::size_t bytes) {
  return bytes >= 2 * kLargePage ? kLargePage : kAlignment;
}

}  // namespace

Buffer::Buffer(std::size_t bytes, Device device) : size_(bytes), device_(device) {
  GRAFT_CHECK(device.type == DeviceType::Cpu, "no runtime for ", to_string(device));
  if (bytes == 0) return;
  const std::size_t alignment = alignment_of(bytes);
  data_ =
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}, std::nothrow));
  if (data_ == nullptr) fail(to_string(device), ": cannot allocate ", bytes_text(bytes));
  if (alignment == kLargePage) ::madvise(data_, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
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
  if (data_ != nullptr) ::operator delete (data_, std::align_val_t{alignment_of(size_)});
}

}  // namespace graft
