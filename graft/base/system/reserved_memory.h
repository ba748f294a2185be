// Reserved address space of a fixed size: pages are committed on first write and can be released
// again. For buffers that may grow large but rarely do.

#pragma once

#include <cstddef>

namespace graft {

class ReservedMemory {
 public:
  ReservedMemory() = default;
  // Throws Error when mmap fails.
  explicit ReservedMemory(std::size_t bytes);
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&& other) noexcept;
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;
  ~ReservedMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Releases the pages that lie fully inside [offset, offset + bytes); they read as zeros again.
  void release(std::size_t offset, std::size_t bytes) const;
  // Resident bytes.
  std::size_t committed_bytes() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace graft
