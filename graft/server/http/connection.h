// One client connection: reads requests and writes responses until either side closes it. Included
// only by the server, because it includes Boost.

#pragma once

#include <set>
#include <utility>  // missing in Boost 1.74's own headers

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include "graft/server/http/server.h"
#include "graft/server/http/worker_pool.h"

namespace graft::server::http {

class OpenConnection {
 public:
  OpenConnection() = default;
  OpenConnection(const OpenConnection&) = delete;
  OpenConnection& operator=(const OpenConnection&) = delete;
  virtual ~OpenConnection() = default;

  virtual bool is_idle() const = 0;  // between two requests, or before the first
  virtual void close_if_idle() = 0;
};

// State shared by all connections. Only the I/O thread uses it.
struct Hub {
  boost::asio::io_context& io;
  WorkerPool& workers;
  WorkerPool& large_body_workers;
  std::size_t large_body_bytes = 0;
  const Limits& limits;
  Hooks hooks;
  bool is_draining = false;
  std::size_t body_bytes = 0;  // of all requests being received or waiting for a worker
  std::set<OpenConnection*> connections = {};
  std::function<void()> on_closed = {};  // called when a connection is closed
};

// Serves the connection until it closes. `tls` null: plain HTTP.
void serve_connection(boost::asio::ip::tcp::socket socket,
                      boost::asio::ssl::context* tls,
                      Hub& hub);

}  // namespace graft::server::http
