// A read-only file mapped into memory. The mapping lives as long as the object.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace graft {

class MappedFile {
 public:
  // Throws Error when the path cannot be opened, is not a regular file, or is empty.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Drops the pages of `part` (a span inside bytes()) from this mapping, so that reading a file
  // larger than memory does not keep all of it resident. The bytes stay readable.
  void release(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
};

// Asks the system to read pages of a mapped file into memory; does not wait for them. Pages that
// are in memory cost a lookup.
void read_ahead(std::span<const std::byte> mapped);

}  // namespace graft
