#include "graft/formats/tensor_file_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "graft/base/check.h"
#include "graft/base/error.h"

namespace graft::formats {
namespace {

// Larger than norms and biases, so that thousands of them take few system calls; chunks of at least
// this size bypass the buffer.
constexpr std::size_t kBufferBytes = 1U << 20U;

std::uint64_t padding_of(std::uint64_t bytes, std::uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

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
  const int fd = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
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

TensorFileWriter::TensorFileWriter(const std::filesystem::path& path,
                                   std::span<const std::byte> header,
                                   std::vector<std::uint64_t> tensor_bytes,
                                   std::uint64_t alignment)
    : path_(path),
      partial_path_(partial_name(path)),
      tensor_bytes_(std::move(tensor_bytes)),
      alignment_(alignment),
      file_bytes_(header.size()) {
  GRAFT_CHECK(alignment > 0 && header.size() % alignment == 0, header.size(), " % ", alignment);
  for (const std::uint64_t bytes : tensor_bytes_) {
    file_bytes_ += bytes + padding_of(bytes, alignment_);
  }
  // Checked before hours of writing, not after.
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) fail(path_.string(), ": is a folder");
  fd_ = open_nameless(folder_of(path_));
  is_nameless_ = fd_ >= 0;
  if (!is_nameless_)
    fd_ = ::open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_.string(), ": cannot create the file: ", std::strerror(errno));
  buffer_.reserve(kBufferBytes);
  try {
    write(header);
    skip_finished_tensors();
  } catch (...) {
    remove();  // the constructor throws: no destructor will run
    throw;
  }
}

TensorFileWriter::~TensorFileWriter() {
  remove();
}

void TensorFileWriter::append(std::span<const std::byte> data) {
  if (data.empty()) return;
  GRAFT_CHECK(tensor_idx_ < tensor_bytes_.size(), path_.string(), ": ", data.size(),
              " bytes after the last of ", tensor_bytes_.size(), " tensors");
  const std::uint64_t left = tensor_bytes_[tensor_idx_] - bytes_of_tensor_;
  GRAFT_CHECK(data.size() <= left, path_.string(), ": ", data.size(), " bytes appended to tensor ",
              tensor_idx_, ", which has ", left, " left");
  write(data);
  bytes_of_tensor_ += data.size();
  skip_finished_tensors();
}

void TensorFileWriter::finish() {
  GRAFT_CHECK(fd_ >= 0, path_.string(), ": finished twice");
  GRAFT_CHECK(tensor_idx_ == tensor_bytes_.size(), path_.string(), ": ", tensor_idx_, " of ",
              tensor_bytes_.size(), " tensors are complete");
  flush();
  GRAFT_CHECK(bytes_on_disk_ == file_bytes_, bytes_on_disk_, " of ", file_bytes_, " bytes");
  if (::fsync(fd_) != 0) {
    fail(path_.string(), ": flushing ", bytes_on_disk_, " bytes failed: ", std::strerror(errno));
  }
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
    fail(path_.string(), ": closing failed after ", bytes_on_disk_,
         " bytes: ", std::strerror(reason));
  }
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(partial_path_.c_str());
    fail(path_.string(), ": cannot rename ", partial_path_.string(), ": ", std::strerror(reason));
  }
  sync_folder(path_);
}

void TensorFileWriter::write(std::span<const std::byte> data) {
  if (buffer_.size() + data.size() > kBufferBytes) flush();
  if (data.size() >= kBufferBytes) {
    write_now(data);
  } else {
    buffer_.insert(buffer_.end(), data.begin(), data.end());
  }
}

void TensorFileWriter::write_now(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fail(path_.string(), ": writing failed after ", bytes_on_disk_, " of ", file_bytes_,
           " bytes: ", std::strerror(errno));
    }
    bytes_on_disk_ += static_cast<std::uint64_t>(written);
    data = data.subspan(static_cast<std::size_t>(written));
  }
}

void TensorFileWriter::write_padding(std::uint64_t num_bytes) {
  static constexpr std::array<std::byte, 4096> kZeros = {};
  while (num_bytes > 0) {
    const auto piece = std::min<std::uint64_t>(num_bytes, kZeros.size());
    write(std::span(kZeros).first(piece));
    num_bytes -= piece;
  }
}

void TensorFileWriter::flush() {
  write_now(buffer_);
  buffer_.clear();
}

void TensorFileWriter::skip_finished_tensors() {
  while (tensor_idx_ < tensor_bytes_.size() && bytes_of_tensor_ == tensor_bytes_[tensor_idx_]) {
    write_padding(padding_of(bytes_of_tensor_, alignment_));
    ++tensor_idx_;
    bytes_of_tensor_ = 0;
  }
}

void TensorFileWriter::remove() {
  if (fd_ < 0) return;
  ::close(std::exchange(fd_, -1));
  if (!is_nameless_) ::unlink(partial_path_.c_str());
}

}  // namespace graft::formats
