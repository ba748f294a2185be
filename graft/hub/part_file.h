// A file that is downloaded in chunks, in any order. It has its final size from the start; the file
// beside it (".chunks") records which chunks are complete, so that a later process continues.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace graft::hub {

class PartFile {
 public:
  // Bytes per chunk: what an interruption loses per connection.
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{8} << 20U;

  // Continues the part at `path` when it has this size and identity (hash or ETag), otherwise
  // begins a new one. Throws Error.
  PartFile(std::filesystem::path path, std::uint64_t size, const std::string& identity);
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile();

  std::size_t num_chunks() const { return done_.size(); }
  std::uint64_t chunk_begin(std::size_t chunk) const { return chunk * kChunkBytes; }
  std::uint64_t chunk_end(std::size_t chunk) const;
  bool is_done(std::size_t chunk) const { return done_[chunk] == 'x'; }
  std::uint64_t done_bytes() const;

  // Thread-safe for different chunks. Throw Error, with the cause and the numbers for a full disk.
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void mark_done(std::size_t chunk);

  // Syncs it and gives it its name; removes the record. Throws Error.
  void finish(const std::filesystem::path& name);
  // Removes the part and the record.
  void discard();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path record_path() const;

  std::filesystem::path path_;
  std::uint64_t size_;
  std::size_t header_bytes_ = 0;  // of the record
  std::vector<char> done_;        // 'x': complete, '.': missing
  int fd_ = -1;
  int record_fd_ = -1;
};

}  // namespace graft::hub
