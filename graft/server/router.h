// Which handler answers which request. What a handler throws becomes an answer here.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graft/server/http/exchange.h"

namespace graft::server {

class Router {
 public:
  // A path that ends in * stands for all that begin so. GET answers HEAD too.
  void add(const std::string& method, const std::string& path, http::Handler handler);
  // One that answers at once.
  void add_plain(const std::string& method,
                 const std::string& path,
                 std::function<http::Response(const http::Request& request)> handler);

  // Never throws: 404 and 405 for what nobody answers, 400 for an Error, 500 for the rest.
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

// Runs `work`; what it throws is the exchange's answer.
void answering(const http::ExchangePtr& exchange, const std::function<void()>& work) noexcept;

}  // namespace graft::server
