#include "graft/server/process/systemd.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "graft/base/text/str.h"

namespace graft::server {
namespace {

// A datagram socket connected to the address, "/path" or "@abstract"; -1 on failure.
int connect_to(const std::string& address) {
  sockaddr_un target = {};
  target.sun_family = AF_UNIX;
  const bool is_valid = address.starts_with('/') || address.starts_with('@');
  if (!is_valid || address.size() >= sizeof(target.sun_path)) return -1;
  std::memcpy(target.sun_path, address.data(), address.size());
  if (address[0] == '@') target.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  const int opened = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (opened < 0) return -1;
  if (::connect(opened, reinterpret_cast<const sockaddr*>(&target), size) == 0) return opened;
  ::close(opened);
  return -1;
}

double watchdog_interval() {
  const char* microseconds = std::getenv("WATCHDOG_USEC");
  const char* pid = std::getenv("WATCHDOG_PID");
  if (microseconds == nullptr || (pid != nullptr && std::atol(pid) != ::getpid())) return 0;
  return std::atof(microseconds) / 1e6 / 2;
}

}  // namespace

Systemd::Systemd() {
  const char* address = std::getenv("NOTIFY_SOCKET");
  if (address == nullptr) return;
  socket_ = connect_to(address);
  if (socket_ >= 0) watchdog_seconds_ = watchdog_interval();
}

Systemd::~Systemd() {
  if (socket_ >= 0) ::close(socket_);
}

void Systemd::reloading() const {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now().time_since_epoch());  // CLOCK_MONOTONIC
  send(str("RELOADING=1\nMONOTONIC_USEC=", now.count()));
}

void Systemd::send(const std::string& state) const {
  // A lost message shows in systemd's own timeouts.
  if (socket_ >= 0) ::send(socket_, state.data(), state.size(), MSG_NOSIGNAL);
}

}  // namespace graft::server
