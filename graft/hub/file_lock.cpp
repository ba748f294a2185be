#include "graft/hub/file_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/hub/http/http.h"

namespace graft::hub {

FileLock::FileLock(const std::filesystem::path& path,
                   const std::function<void()>& on_wait,
                   const std::stop_token& stop) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path.string(), ": cannot be created: ", std::strerror(errno));
  bool has_waited = false;
  // Polled, so that a stop ends the wait.
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if ((error != EWOULDBLOCK && error != EINTR) || stop.stop_requested()) {
      ::close(fd_);
      if (stop.stop_requested()) throw Cancelled();
      fail(path.string(), ": cannot be locked: ", std::strerror(error));
    }
    if (!has_waited && on_wait) on_wait();
    has_waited = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace graft::hub
