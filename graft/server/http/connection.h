// One client: requests in, answers out, until one of the two has had enough. Used by the server
// alone; includes Boost, so nothing else should include it.

#pragma once

#include <set>
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include "graft/server/http/server.h"
#include "graft/server/http/workers.h"

namespace graft::server::http {

class OpenConnection {
 public:
  OpenConnection() = default;
  OpenConnection(const OpenConnection&) = delete;
  OpenConnection& operator=(const OpenConnection&) = delete;
  virtual ~OpenConnection() = default;

  virtual void close_if_idle() = 0;  // nothing is asked at the moment
};

// What connections share; of the server's thread.
struct Hub {
  boost::asio::io_context& io;
  Workers& workers;
  const Limits& limits;
  Hooks hooks;
  bool is_draining = false;
  std::size_t body_bytes = 0;  // of requests that are being read, or wait for a worker
  std::set<OpenConnection*> connections = {};
  std::function<void()> on_closed = {};  // a connection
};

// `tls` null: plain.
void serve_connection(boost::asio::ip::tcp::socket socket,
                      boost::asio::ssl::context* tls,
                      Hub& hub);

}  // namespace graft::server::http
