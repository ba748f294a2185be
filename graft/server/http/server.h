// An HTTP/1.1 server: reads requests within limits, runs handlers on a few worker threads and
// writes their responses. One I/O thread owns all sockets, so thousands of open streams cost only
// memory. Independent of language models.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "graft/server/http/config.h"
#include "graft/server/http/exchange.h"
#include "graft/server/http/live_exchange.h"

namespace graft::server::http {

struct Hooks {
  Handler handler;  // runs on a worker thread; must not throw
  // Runs on the I/O thread before the body is read; a returned response rejects the request.
  std::function<std::optional<Response>(const Request& request)> gate;
  // Headers to add to every response to the request.
  std::function<std::vector<Header>(const Request& request)> headers;
  // The response to a malformed or too large request.
  std::function<Response(int status, const std::string& message)> error_response;
  std::function<void()> on_drain;  // shutdown has started: no new connections
  Log log;
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

  // Serves until SIGTERM or SIGINT, then drains: waits for running responses. A second signal stops
  // immediately.
  void run(Hooks hooks);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::server::http
