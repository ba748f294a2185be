// Maps method and path to a handler, and turns exceptions of handlers into error responses.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graft/server/http/exchange.h"

namespace graft::server {

class Router {
 public:
  using Respond = std::function<http::Response(const http::Request& request)>;

  // A path that ends in * is a prefix match. GET routes also serve HEAD.
  void add(const std::string& method, const std::string& path, http::Handler handler);
  // A handler that returns its response immediately.
  void add_sync(const std::string& method, const std::string& path, Respond handler);
  // A handler that also returns its response at once, and waits for no lock that is held for long:
  // respond_now() calls it on the I/O thread, so that it works while all workers are busy.
  void add_immediate(const std::string& method, const std::string& path, Respond handler);

  // The response of an immediate route; nullopt for other requests. Never throws.
  std::optional<http::Response> respond_now(const http::Request& request) const;
  // The path of the route that the request belongs to, with any method; "other" without one.
  std::string route_of(const http::Request& request) const;
  // Never throws: 404 for an unknown path, 405 with Allow for a wrong method, 400 for Error, 500
  // otherwise.
  void handle(const http::ExchangePtr& exchange) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    bool is_prefix = false;
    http::Handler handler;
    Respond immediate = {};  // empty: only on a worker

    bool matches(std::string_view wanted) const;
  };

  // Null for an unknown path or a wrong method.
  const Route* find(const http::Request& request) const;
  http::Response not_found_response(const http::Request& request) const;

  std::vector<Route> routes_;
};

// Runs `work`; an exception becomes the error response of the exchange.
void with_error_response(const http::ExchangePtr& exchange,
                         const std::function<void()>& work) noexcept;

}  // namespace graft::server
