#include "graft/server/access/access.h"

#include <algorithm>
#include <array>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

// Paths without authentication: health checks, and the web pages, which ask the user for the key.
bool is_public(const http::Request& request) {
  static constexpr std::array<std::string_view, 5> kPaths = {"/", "/status", "/health", "/ready",
                                                             "/v1/health"};
  const bool is_page = request.path.starts_with("/assets/");
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  return is_read && (is_page || std::ranges::find(kPaths, request.path) != kPaths.end());
}

// Same origin: origin "http://localhost:8000" and Host "localhost:8000".
bool is_own_origin(const http::Request& request, std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == request.header("host");
}

}  // namespace

bool Access::is_allowed_origin(std::string_view origin) const {
  return std::ranges::any_of(config_.origins, [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

std::vector<http::Header> Access::headers(const http::Request& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !is_allowed_origin(origin)) return {};
  return {{.name = "Access-Control-Allow-Origin", .value = std::string(origin)},
          {.name = "Vary", .value = "Origin"},
          {.name = "Access-Control-Expose-Headers", .value = "x-request-id, Retry-After"}};
}

std::optional<http::Response> Access::gate(const http::Request& request) const {
  const auto reject = [&](const ApiError& error) { return error_response(error, request.path); };
  const std::string_view origin = request.header("origin");
  // Browsers send "simple" cross-origin requests without a preflight: without this check any web
  // page could use a server on the user's own machine.
  if (!origin.empty() && !is_own_origin(request, origin) && !is_allowed_origin(origin) &&
      request.method != "GET" && request.method != "HEAD")
    return reject({403, str("origin ", origin, " is not allowed; see --cors-origin")});
  if (request.method == "OPTIONS") {
    http::Response response = {.status = 204};
    if (!origin.empty() && is_allowed_origin(origin)) {
      const std::string_view requested = request.header("access-control-request-headers");
      response.headers.push_back(
          {.name = "Access-Control-Allow-Methods", .value = "GET, POST, OPTIONS"});
      response.headers.push_back(
          {.name = "Access-Control-Allow-Headers",
           .value = requested.empty() ? "authorization, content-type" : std::string(requested)});
      response.headers.push_back({.name = "Access-Control-Max-Age", .value = "86400"});
    }
    return response;
  }
  if (config_.keys.empty() || is_public(request) || config_.keys.salt_of(request))
    return std::nullopt;
  return reject(
      {401, "missing or invalid API key: send 'Authorization: Bearer KEY'", {}, "invalid_api_key"});
}

std::uint64_t Access::cache_salt(const http::Request& request,
                                 const std::string& client_salt) const {
  const bool is_separate = config_.separate_caches && !config_.keys.empty();
  const std::uint64_t salt = is_separate ? config_.keys.salt_of(request).value_or(0) : 0;
  return client_salt.empty() ? salt : salt_of_text(str(salt, ":", client_salt));
}

}  // namespace graft::server
