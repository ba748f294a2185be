// An HTTP/1.1 server: listens, reads requests within limits, gives them to handlers on a few worker
// threads and writes what they answer. All sockets belong to one thread, so that thousands of open
// streams cost memory only. Knows nothing of language models.

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
  Handler handler;  // on a worker; must not throw
  // Sees a request before its body is read, on the server's thread; an answer refuses it.
  std::function<std::optional<Response>(const Request& request)> gate;
  // What every answer to the request carries besides.
  std::function<std::vector<Header>(const Request& request)> headers;
  // The answer to what is no request, or too large.
  std::function<Response(int status, const std::string& message)> refusal;
  std::function<void()> on_drain;  // no new connections from now on
  Log log;
};

class Server {
 public:
  // Binds and listens. Throws Error.
  explicit Server(const Config& config);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Everything that may still write to an exchange must be gone before.
  ~Server();

  std::uint16_t port() const;
  void post_to_workers(std::function<void()> task);

  // Serves until SIGTERM or SIGINT, then until the answers under way have ended; a second signal
  // ends them too.
  void run(Hooks hooks);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::server::http
