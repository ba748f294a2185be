// An HTTP/1.1 server: reads requests within limits, runs handlers on a few worker threads and
// writes their responses. One I/O thread owns all sockets, so thousands of open streams cost only
// memory. Independent of language models.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/server/http/config.h"
#include "graft/server/http/exchange.h"
#include "graft/server/http/live_exchange.h"

namespace graft::server::http {

struct Hooks {
  Handler handler;  // runs on a worker thread; must not throw
  // Runs first, on the I/O thread; may set the client of a request that came through a proxy.
  std::function<void(Request& request)> on_head;
  // Runs on the I/O thread before the body is read; a returned response ends the request, as an
  // error or because it needs no worker. May append to the headers of the response.
  std::function<std::optional<Response>(const Request& request, std::vector<Header>& headers)> gate;
  // Requests of different clients take turns.
  std::function<std::uint64_t(const Request& request)> client_of;
  // Headers to add to every response to the request.
  std::function<std::vector<Header>(const Request& request)> headers;
  // The response to a malformed or too large request.
  std::function<Response(const Request& request, int status, const std::string& message)>
      error_response;
  // Shutdown has started: the process must end within `max_seconds`. Called again with 0 by a
  // second signal.
  std::function<void(double max_seconds)> on_drain;
  std::function<void()> on_reload;  // SIGHUP, on the I/O thread
  // Called on the I/O thread at this interval; 0: never.
  std::function<void()> heartbeat;
  double heartbeat_seconds = 0;
  Log log;
};

struct ServerStats {
  std::size_t num_connections = 0;  // open now
  std::uint64_t num_accepted = 0;
};

class Server {
 public:
  // Binds and listens. Throws Error.
  explicit Server(const Config& config);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Everything that may still write to an exchange must be destroyed before.
  ~Server();

  std::uint16_t port() const;
  void post_to_workers(std::function<void()> task);
  ServerStats stats() const;  // on the I/O thread

  // Uses the certificate files as they are now for new connections. Throws Error and keeps the old
  // certificate. On the I/O thread.
  void reload_certificate();

  // Serves until SIGTERM or SIGINT, then drains: the port stays open, idle connections are closed,
  // and run() returns when no response is running (SIGTERM: not before Drain::min_seconds), at
  // Drain::max_seconds, or at a second signal.
  void run(Hooks hooks);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::server::http
