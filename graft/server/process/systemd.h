// systemd's notification protocol (sd_notify(3)): datagrams to the socket $NOTIFY_SOCKET. Without
// that variable nothing is sent.

#pragma once

#include <string>

namespace graft::server {

class Systemd {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  Systemd();
  Systemd(const Systemd&) = delete;
  Systemd& operator=(const Systemd&) = delete;
  ~Systemd();

  void ready() const { send("READY=1"); }
  void stopping() const { send("STOPPING=1"); }
  // For Type=notify-reload: between reloading() and ready() the unit is "reloading".
  void reloading() const;
  void watchdog() const { send("WATCHDOG=1"); }
  // Half the time after which systemd restarts a unit without a sign of life; 0: no watchdog.
  double watchdog_seconds() const { return watchdog_seconds_; }

 private:
  void send(const std::string& state) const;

  int socket_ = -1;
  double watchdog_seconds_ = 0;
};

}  // namespace graft::server
