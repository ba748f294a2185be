#include "graft/tensor/arena.h"

namespace graft {
namespace {

// The unused tail of a buffer was never written, so its pages are not committed.
constexpr std::size_t kBufferBytes = std::size_t{64} << 20;
constexpr std::size_t kArenaAlignment = 64;

}  // namespace

std::shared_ptr<std::byte> Arena::allocate(std::size_t bytes) {
  const std::size_t begin = (used_ + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  if (current_ == nullptr || begin + bytes > current_->size()) {
    if (bytes > kBufferBytes / 2) {
      const auto own = std::make_shared<const Buffer>(bytes);
      return {own, own->data()};
    }
    current_ = std::make_shared<const Buffer>(kBufferBytes);
    used_ = bytes;
    return {current_, current_->data()};
  }
  used_ = begin + bytes;
  return {current_, current_->data() + begin};
}

}  // namespace graft
