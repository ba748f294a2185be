// Address space of a fixed size whose pages take memory only once they are written, and can be
// given back: for what may grow large but seldom does.

#pragma once

#include <cstddef>

namespace graft {

class ReservedMemory {
 public:
  ReservedMemory() = default;
  // Throws Error when the system has no such address space.
  explicit ReservedMemory(std::size_t bytes);
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&& other) noexcept;
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;
  ~ReservedMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Gives back the whole pages inside [offset, offset + bytes); what they held is lost.
  void release(std::size_t offset, std::size_t bytes) const;
  // Bytes that take memory now.
  std::size_t committed_bytes() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace graft
