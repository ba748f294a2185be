// An exclusive lock between processes and threads: flock() on a file, as huggingface_hub does. The
// system releases it when the process ends.

#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>

namespace graft::hub {

class FileLock {
 public:
  // Creates the file and its folder, and waits until the lock is free; calls `on_wait` once when it
  // is not. Throws Error when the file cannot be created; Cancelled.
  FileLock(const std::filesystem::path& path,
           const std::function<void()>& on_wait,
           const std::stop_token& stop = {});
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int fd_;
};

}  // namespace graft::hub
