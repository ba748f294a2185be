// Maps method and path to a handler, and turns exceptions of handlers into error responses.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graft/server/http/exchange.h"

namespace graft::server {

class Router {
 public:
  // A path that ends in * is a prefix match. GET routes also serve HEAD.
  void add(const std::string& method, const std::string& path, http::Handler handler);
  // A handler that returns its response immediately.
  void add_sync(const std::string& method,
                const std::string& path,
                std::function<http::Response(const http::Request& request)> handler);

  // Never throws: 404 for an unknown path, 405 for a wrong method, 400 for Error, 500 otherwise.
  void handle(const http::ExchangePtr& exchange) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    bool is_prefix = false;
    http::Handler handler;

    bool matches(std::string_view wanted) const;
  };

  const http::Handler& find(const http::Request& request) const;

  std::vector<Route> routes_;
};

// Runs `work`; an exception becomes the error response of the exchange.
void with_error_response(const http::ExchangePtr& exchange,
                         const std::function<void()>& work) noexcept;

}  // namespace graft::server
