#include "graft/base/system/new_file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/str.h"

namespace graft {
namespace {

// The process id and a counter make the name unique among concurrent writers.
std::filesystem::path partial_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter = 0;
  return str(path.string(), ".", ::getpid(), "-", counter++, ".partial");
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// The path under which an unnamed file can be linked.
std::string path_of_open_file(int fd) {
  return str("/proc/self/fd/", fd);
}

// An unnamed file, which the system removes when the process ends; -1 where the file system does
// not support it.
int open_nameless(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
  if (fd < 0 || ::access(path_of_open_file(fd).c_str(), F_OK) == 0) return fd;
  ::close(fd);
  return -1;
}

// A rename is durable once its folder is synced. Some file systems cannot: not an error.
void sync_folder(const std::filesystem::path& file) {
  const int fd = ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

NewFile::NewFile(const std::filesystem::path& path)
    : path_(path), partial_path_(partial_name(path)) {
  // Checked before hours of writing, not after.
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) fail(path_.string(), ": is a folder");
  if (!std::filesystem::exists(folder_of(path_), ignored))
    fail(path_.string(), ": the folder ", folder_of(path_).string(), " does not exist");
  fd_ = open_nameless(folder_of(path_));
  is_nameless_ = fd_ >= 0;
  if (!is_nameless_)
    fd_ = ::open(partial_path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_.string(), ": cannot create the file: ", std::strerror(errno));
}

NewFile::~NewFile() {
  remove();
}

void NewFile::append(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string total = expected_bytes_ == 0 ? "" : str(" of ", expected_bytes_);
      fail(path_.string(), ": writing failed after ", bytes_, total,
           " bytes: ", std::strerror(errno));
    }
    bytes_ += static_cast<std::uint64_t>(written);
    data = data.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::overwrite(std::uint64_t offset, std::span<const std::byte> data) {
  GRAFT_CHECK(offset + data.size() <= bytes_, offset, " + ", data.size(), " of ", bytes_);
  while (!data.empty()) {
    const ssize_t written = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      fail(path_.string(), ": writing at offset ", offset, " failed: ", std::strerror(errno));
    offset += static_cast<std::uint64_t>(written);
    data = data.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::finish() {
  GRAFT_CHECK(fd_ >= 0, path_.string(), ": finished twice");
  if (::fsync(fd_) != 0)
    fail(path_.string(), ": flushing ", bytes_, " bytes failed: ", std::strerror(errno));
  if (is_nameless_ && ::linkat(AT_FDCWD, path_of_open_file(fd_).c_str(), AT_FDCWD,
                               partial_path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    fail(path_.string(), ": cannot link the file as ", partial_path_.string(), ": ",
         std::strerror(errno));
  }
  is_nameless_ = false;
  // Network file systems report a full disk here.
  if (::close(std::exchange(fd_, -1)) != 0) {
    const int reason = errno;
    ::unlink(partial_path_.c_str());
    fail(path_.string(), ": closing failed after ", bytes_, " bytes: ", std::strerror(reason));
  }
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(partial_path_.c_str());
    fail(path_.string(), ": cannot rename ", partial_path_.string(), ": ", std::strerror(reason));
  }
  sync_folder(path_);
}

void NewFile::remove() {
  if (fd_ < 0) return;
  ::close(std::exchange(fd_, -1));
  if (!is_nameless_) ::unlink(partial_path_.c_str());
}

}  // namespace graft
