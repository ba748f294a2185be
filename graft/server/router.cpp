#include "graft/server/router.h"

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"

namespace graft::server {

void with_error_response(const http::ExchangePtr& exchange,
                         const std::function<void()>& work) noexcept {
  const std::string& path = exchange->request().path;
  try {
    work();
  } catch (const ApiError& error) {
    exchange->respond(error_response(error, path));
  } catch (const Error& error) {
    // Thrown by the engine and the chat template for invalid requests.
    exchange->respond(error_response({400, without_folders(error.what())}, path));
  } catch (const Failure& error) {
    exchange->log_field("error", error.what());
    exchange->respond(error_response({500, error.what()}, path));
  } catch (const std::bad_alloc&) {
    exchange->respond(error_response({503, "out of memory"}, path));
  } catch (const std::exception& error) {
    exchange->log_field("error", error.what());
    exchange->respond(error_response({500, "internal error"}, path));
  }
}

bool Router::Route::matches(std::string_view wanted) const {
  return is_prefix ? wanted.starts_with(path) : wanted == path;
}

void Router::add(const std::string& method, const std::string& path, http::Handler handler) {
  const bool is_prefix = path.ends_with('*');
  routes_.push_back({.method = method,
                     .path = is_prefix ? path.substr(0, path.size() - 1) : path,
                     .is_prefix = is_prefix,
                     .handler = std::move(handler)});
}

void Router::add_sync(const std::string& method, const std::string& path, Respond handler) {
  add(method, path, [handler = std::move(handler)](const http::ExchangePtr& exchange) {
    exchange->respond(handler(exchange->request()));
  });
}

void Router::add_immediate(const std::string& method, const std::string& path, Respond handler) {
  add_sync(method, path, handler);
  routes_.back().immediate = std::move(handler);
}

const Router::Route* Router::find(const http::Request& request) const {
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  const auto found = std::ranges::find_if(routes_, [&](const Route& route) {
    return route.method == method && route.matches(request.path);
  });
  return found == routes_.end() ? nullptr : &*found;
}

std::string Router::route_of(const http::Request& request) const {
  const auto found = std::ranges::find_if(
      routes_, [&](const Route& route) { return route.matches(request.path); });
  if (found == routes_.end()) return "other";
  return found->is_prefix ? found->path + "*" : found->path;
}

http::Response Router::not_found_response(const http::Request& request) const {
  std::set<std::string> methods;
  for (const Route& route : routes_) {
    if (!route.matches(request.path)) continue;
    methods.insert(route.method);
    if (route.method == "GET") methods.insert("HEAD");
  }
  if (methods.empty()) {
    return error_response({404, str("no such path: ", request.path), {}, "not_found"},
                          request.path);
  }
  methods.insert("OPTIONS");  // answered before the router
  std::string allowed;
  for (const std::string& method : methods)
    allowed += (allowed.empty() ? "" : ", ") + method;
  http::Response response = error_response(
      {405, str("method ", request.method, " not allowed for ", request.path, "; use ", allowed)},
      request.path);
  response.headers.push_back({.name = "Allow", .value = allowed});
  return response;
}

std::optional<http::Response> Router::respond_now(const http::Request& request) const {
  const Route* route = find(request);
  if (route == nullptr || !route->immediate) return std::nullopt;
  try {
    return route->immediate(request);
  } catch (const std::exception&) {
    return error_response({500, "internal error"}, request.path);
  }
}

void Router::handle(const http::ExchangePtr& exchange) const {
  if (const Route* route = find(exchange->request())) {
    with_error_response(exchange, [&] { route->handler(exchange); });
  } else {
    exchange->respond(not_found_response(exchange->request()));
  }
}

}  // namespace graft::server
