#include "graft/engine/tiers/disk_folder.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graft/base/error.h"

namespace graft::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".kv";
constexpr std::string_view kPartialPrefix = "partial-";
// A write takes far less; a younger partial file may belong to another process.
constexpr std::int64_t kStaleNs = std::int64_t{600} * 1'000'000'000;
// No block is larger; bounds what a foreign file can make us read.
constexpr std::int64_t kMaxFileBytes = std::int64_t{4} << 30;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }
  int close() {
    const int result = fd_ >= 0 ? ::close(fd_) : 0;
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

std::int64_t ns_of(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool is_own_file(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == ::geteuid();
}

// The names of a folder; empty when it cannot be read.
std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  return names;
}

void scan_subfolder(const fs::path& folder,
                    const std::string& digits,
                    std::vector<DiskFile>& files) {
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    struct stat info = {};
    const bool is_partial = name.starts_with(kPartialPrefix);
    if (!is_partial && !name.ends_with(kSuffix)) continue;
    if (::lstat(path.c_str(), &info) != 0 || !is_own_file(info)) continue;
    if (is_partial) {
      if (now_ns() - ns_of(info.st_mtim) > kStaleNs) ::unlink(path.c_str());
      continue;
    }
    const auto key =
        parse_block_key(std::string_view(name).substr(0, name.size() - kSuffix.size()));
    if (!key || !name.starts_with(digits)) continue;
    files.push_back({.key = *key,
                     .bytes = static_cast<std::uint64_t>(info.st_size),
                     .used_ns = ns_of(info.st_mtim)});
  }
}

// False: an error, or the file ended early (errno 0).
bool read_all(int fd, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::read(fd, out.data(), out.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = 0;
    if (got <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return true;
}

int write_and_rename(const fs::path& partial, const fs::path& path, const TierEntry& entry) {
  FileDescriptor file(
      ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return errno;
  const bool is_written =
      write_all(file.get(), entry_header(entry)) && write_all(file.get(), entry.bytes.bytes());
  int error = is_written ? 0 : errno;
  // Some file systems report a full disk only here.
  if (file.close() != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(partial.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(partial.c_str());
  return error;
}

ReadResult read_file(const fs::path& path,
                     const BlockKey& key,
                     TierEntry& entry,
                     std::string& error,
                     BlockMemory* memory,
                     bool is_use) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  const auto failed = [&] {
    error = str(path.string(), ": ", std::strerror(errno));
    return ReadResult::Failed;
  };
  if (file.get() < 0) return errno == ENOENT ? ReadResult::Missing : failed();
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return failed();
  if (!is_own_file(info)) return ReadResult::Missing;
  if (info.st_size > kMaxFileBytes) {
    error = str(path.string(), ": ", info.st_size, " bytes are too large for a block");
    return ReadResult::Damaged;
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  if (!read_all(file.get(), bytes)) {
    if (errno != 0) return failed();
    error = str(path.string(), ": truncated while it was read");
    return ReadResult::Damaged;
  }
  std::string problem = parse_entry(bytes, entry, memory);
  if (problem.empty() && entry.key != key) problem = "holds another block than its name says";
  if (!problem.empty()) {
    error = str(path.string(), ": ", problem);
    return ReadResult::Damaged;
  }
  if (is_use) ::futimens(file.get(), nullptr);
  return ReadResult::Ok;
}

}  // namespace

void create_disk_folder(const fs::path& dir) {
  std::error_code error;
  if (dir.has_parent_path()) fs::create_directories(dir.parent_path(), error);
  if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
    fail(dir.string(), ": cannot create the folder: ", std::strerror(errno));
  struct stat info = {};
  if (::stat(dir.c_str(), &info) != 0) fail(dir.string(), ": ", std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) fail(dir.string(), ": not a folder");
  if (info.st_uid != ::geteuid()) fail(dir.string(), ": belongs to another user");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail(dir.string(), ": other users can write to the folder; run: chmod go-w ", dir.string());
}

fs::path block_path(const fs::path& dir, const BlockKey& key) {
  const std::string hex = to_hex(key);
  return dir / hex.substr(0, 2) / (hex + std::string(kSuffix));
}

std::vector<DiskFile> scan_folder(const fs::path& dir) {
  std::vector<DiskFile> files;
  for (const std::string& name : names_in(dir)) {
    if (name.size() == 2 && parse_block_key(name + std::string(30, '0')))
      scan_subfolder(dir / name, name, files);
  }
  return files;
}

ReadResult read_block(const fs::path& dir,
                      const BlockKey& key,
                      TierEntry& entry,
                      std::string& error,
                      BlockMemory* memory) {
  return read_file(block_path(dir, key), key, entry, error, memory, /*is_use=*/true);
}

ReadResult check_block(const fs::path& dir,
                       const BlockKey& key,
                       TierEntry& entry,
                       std::string& error) {
  return read_file(block_path(dir, key), key, entry, error, nullptr, /*is_use=*/false);
}

int write_block(const fs::path& dir, const TierEntry& entry) {
  static std::atomic<std::uint64_t> num_written = 0;
  const fs::path path = block_path(dir, entry.key);
  // The process id alone is not unique between machines that share a folder.
  const fs::path partial = path.parent_path() / str(kPartialPrefix, ::getpid(), "-", now_ns(), "-",
                                                    num_written.fetch_add(1));
  int error = write_and_rename(partial, path, entry);
  if (error == ENOENT) {
    // The first block of its subfolder, or the folder was deleted.
    if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return errno;
    if (::mkdir(path.parent_path().c_str(), 0700) != 0 && errno != EEXIST) return errno;
    error = write_and_rename(partial, path, entry);
  }
  return error;
}

FolderLock::FolderLock(const fs::path& dir)
    : fd_(::open((dir / "lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)),
      is_held_(fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace graft::engine
