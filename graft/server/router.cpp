#include "graft/server/router.h"

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
    exchange->respond(error_response({400, error.what()}, path));
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

void Router::add_sync(const std::string& method,
                      const std::string& path,
                      std::function<http::Response(const http::Request& request)> handler) {
  add(method, path, [handler = std::move(handler)](const http::ExchangePtr& exchange) {
    exchange->respond(handler(exchange->request()));
  });
}

const http::Handler& Router::find(const http::Request& request) const {
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  std::set<std::string> others;
  for (const Route& route : routes_) {
    if (!route.matches(request.path)) continue;
    if (route.method == method) return route.handler;
    others.insert(route.method);
  }
  if (others.empty()) throw ApiError(404, str("no such path: ", request.path), {}, "not_found");
  std::string allowed;
  for (const std::string& other : others)
    allowed += (allowed.empty() ? "" : ", ") + other;
  throw ApiError(
      405, str("method ", request.method, " not allowed for ", request.path, "; use ", allowed));
}

void Router::handle(const http::ExchangePtr& exchange) const {
  with_error_response(exchange, [&] { find(exchange->request())(exchange); });
}

}  // namespace graft::server
