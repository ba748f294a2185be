#include "graft/hub/part_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/text/units.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

std::string read_record(const fs::path& path) {
  constexpr std::uintmax_t kMaxBytes = 64U << 20U;
  std::error_code error;
  if (fs::file_size(path, error) > kMaxBytes || error) return {};
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int open_file(const fs::path& path, int flags) {
  // No symbolic link: the folder may be writable by others.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (fd < 0) fail(path.string(), ": cannot be created: ", std::strerror(errno));
  return fd;
}

void write_at(
    int fd, std::uint64_t offset, const char* data, std::size_t size, const fs::path& path) {
  while (size > 0) {
    const ssize_t count = ::pwrite(fd, data, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      fail(path.string(), ": cannot write ", bytes_text(size), " at ", bytes_text(offset), ": ",
           std::strerror(errno));
    }
    data += count;
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::size_t>(count);
  }
}

}  // namespace

PartFile::PartFile(fs::path path, std::uint64_t size, const std::string& identity)
    : path_(std::move(path)), size_(size) {
  const std::string header = str("graft part 1\n", size, " ", kChunkBytes, "\n", identity, "\n");
  header_bytes_ = header.size();
  const std::size_t count = (size + kChunkBytes - 1) / kChunkBytes;
  const std::string record = read_record(record_path());
  std::error_code error;
  const bool continues = record.starts_with(header) && record.size() == header.size() + count &&
                         fs::file_size(path_, error) == size && !error;
  fd_ = open_file(path_, 0);
  try {
    record_fd_ = open_file(record_path(), 0);
    if (continues) {
      done_.assign(record.begin() + static_cast<std::ptrdiff_t>(header.size()), record.end());
    } else {
      done_.assign(count, '.');
      const std::string text = header + std::string(count, '.');
      if (::ftruncate(record_fd_, 0) != 0 || ::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
        fail(path_.string(), ": cannot be resized to ", bytes_text(size), ": ",
             std::strerror(errno));
      }
      write_at(record_fd_, 0, text.data(), text.size(), record_path());
    }
  } catch (...) {
    ::close(fd_);
    if (record_fd_ >= 0) ::close(record_fd_);
    throw;
  }
}

PartFile::~PartFile() {
  ::close(fd_);
  ::close(record_fd_);
}

fs::path PartFile::record_path() const {
  return path_.string() + ".chunks";
}

std::uint64_t PartFile::chunk_end(std::size_t chunk) const {
  return std::min(size_, (chunk + 1) * kChunkBytes);
}

std::uint64_t PartFile::done_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < done_.size(); ++i) {
    if (is_done(i)) bytes += chunk_end(i) - chunk_begin(i);
  }
  return bytes;
}

void PartFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  write_at(fd_, offset, reinterpret_cast<const char*>(bytes.data()), bytes.size(), path_);
}

void PartFile::mark_done(std::size_t chunk) {
  done_[chunk] = 'x';
  write_at(record_fd_, header_bytes_ + chunk, &done_[chunk], 1, record_path());
}

void PartFile::finish(const fs::path& name) {
  if (::fsync(fd_) != 0) fail(path_.string(), ": cannot be written: ", std::strerror(errno));
  std::error_code error;
  fs::rename(path_, name, error);
  if (error) fail(path_.string(), ": cannot be renamed to ", name.string(), ": ", error.message());
  fs::remove(record_path(), error);
}

void PartFile::discard() {
  std::error_code ignored;
  fs::remove(path_, ignored);
  fs::remove(record_path(), ignored);
}

}  // namespace graft::hub
