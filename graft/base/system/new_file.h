// A new file, written front to back. Until finish() it is unnamed (O_TMPFILE), or has a temporary
// name in the same folder where the file system requires one: the path holds a complete file or
// none.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace graft {

class NewFile {
 public:
  // Throws Error when the file cannot be created.
  explicit NewFile(const std::filesystem::path& path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // without finish(): removes the partial file

  // The size it will have, for errors.
  void expect_bytes(std::uint64_t bytes) { expected_bytes_ = bytes; }
  void append(std::span<const std::byte> data);  // throws Error
  // Replaces bytes that were appended before.
  void overwrite(std::uint64_t offset, std::span<const std::byte> data);
  // Syncs the file and gives it its name. Throws Error.
  void finish();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }  // appended so far
  int fd() const { return fd_; }                  // for mapping; valid until finish()

 private:
  void remove();

  std::filesystem::path path_;
  std::filesystem::path partial_path_;
  int fd_ = -1;
  bool is_nameless_ = false;  // until finish() links it to partial_path_
  std::uint64_t bytes_ = 0;
  std::uint64_t expected_bytes_ = 0;  // 0: unknown
};

}  // namespace graft
