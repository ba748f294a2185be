#include "graft/base/system/reserved_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/text/units.h"

namespace graft {
namespace {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

ReservedMemory::ReservedMemory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    fail("cannot reserve ", bytes_text(bytes), " of address space: ", std::strerror(errno));
  data_ = static_cast<std::byte*>(address);
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

ReservedMemory& ReservedMemory::operator=(ReservedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void ReservedMemory::release(std::size_t offset, std::size_t bytes) const {
  const std::size_t page = page_bytes();
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = std::min(offset + bytes, size_) / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

std::size_t ReservedMemory::committed_bytes() const {
  if (data_ == nullptr) return 0;
  std::vector<unsigned char> pages((size_ + page_bytes() - 1) / page_bytes());
  if (::mincore(data_, size_, pages.data()) != 0) return size_;
  const auto num_resident =
      std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; });
  return static_cast<std::size_t>(num_resident) * page_bytes();
}

}  // namespace graft
