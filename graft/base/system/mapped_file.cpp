#include "graft/base/system/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/system/mapping_guard.h"

namespace graft {
namespace {

struct FileDescriptor {
  int fd;
  explicit FileDescriptor(int value) : fd(value) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe without a writer would wait forever.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) fail(path.string(), ": ", std::strerror(errno));
  struct stat status = {};
  if (::fstat(file.fd, &status) != 0) fail(path.string(), ": ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path.string(), ": not a regular file");
  if (status.st_size == 0) fail(path.string(), ": the file is empty");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED)
    fail(path.string(), ": cannot map ", size, " bytes: ", std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(data), size};
  guard_mapping(bytes_, path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  unguard_mapping(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Only pages that lie fully inside the part: the others hold neighbouring data.
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(part.data()) % page) % page;
  if (part.size() < before + page) return;
  auto* first = const_cast<std::byte*>(part.data()) + before;
  ::madvise(first, (part.size() - before) / page * page, MADV_DONTNEED);
}

void read_ahead(std::span<const std::byte> mapped) {
  // Linux reads at most the readahead window of the device per call and ignores the rest: 128 KiB
  // is its default.
  constexpr std::size_t kStep = std::size_t{128} << 10U;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(mapped.data()) % page;
  auto* first = const_cast<std::byte*>(mapped.data()) - before;
  const std::size_t size = mapped.size() + before;
  for (std::size_t at = 0; at < size; at += kStep)
    ::madvise(first + at, std::min(kStep, size - at), MADV_WILLNEED);
}

}  // namespace graft
