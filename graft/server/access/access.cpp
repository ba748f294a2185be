#include "graft/server/access/access.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/http/authority.h"

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

AllowedHosts hosts_of(const AccessConfig& config) {
  std::vector<std::string> names = config.hosts;
  if (!config.public_url.empty()) {
    const std::string origin = origin_of_url(config.public_url);
    names.push_back(origin.substr(origin.find("://") + 3));
  }
  return {config.bound_host, names};
}

// The address, or the /64 network of an IPv6 address: its owner can use all addresses of it.
std::string network_of(const std::string& remote) {
  constexpr std::size_t kNetworkBytes = 8;
  const auto address = http::parse_ip(remote);
  const bool is_v6 = address && remote.find('.') == std::string::npos;
  if (!is_v6) return remote;
  return {address->begin(), address->begin() + kNetworkBytes};
}

bool is_private(const AccessConfig& config) {
  const std::string& host = config.bound_host;
  const bool is_loopback = host.starts_with("127.") || host == "::1" || host == "localhost";
  return is_loopback && config.public_url.empty() && config.trusted_proxies.empty();
}

http::Response preflight_response(const http::Request& request, bool is_allowed) {
  http::Response response = {.status = 204};
  if (!is_allowed) return response;
  const std::string_view requested = request.header("access-control-request-headers");
  response.headers = {
      {.name = "Access-Control-Allow-Methods", .value = "GET, POST, DELETE, OPTIONS"},
      {.name = "Access-Control-Allow-Headers",
       .value = requested.empty() ? "authorization, content-type" : std::string(requested)},
      {.name = "Access-Control-Max-Age", .value = "86400"}};
  return response;
}

}  // namespace

Access::Access(const AccessConfig& config)
    : hosts_(hosts_of(config)),
      origins_(config.origins),
      proxies_(config.trusted_proxies),
      public_origin_(config.public_url.empty() ? "" : origin_of_url(config.public_url)),
      allow_pull_(config.allow_pull),
      is_private_(is_private(config)),
      separate_caches_(config.separate_caches),
      keys_(std::make_shared<const ApiKeys>(config.keys)) {}

void Access::set_keys(ApiKeys keys) {
  auto shared = std::make_shared<const ApiKeys>(std::move(keys));
  const std::lock_guard lock(mutex_);
  keys_.swap(shared);
}

std::shared_ptr<const ApiKeys> Access::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

// Same origin: origin "http://localhost:8000" and Host "localhost:8000", or the public URL.
bool Access::is_own_origin(const http::Request& request, std::string_view origin) const {
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  return origin == public_origin_ || origin.substr(scheme + 3) == request.header("host");
}

std::vector<http::Header> Access::headers(const http::Request& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !origins_.allows(origin)) return {};
  return {{.name = "Access-Control-Allow-Origin", .value = std::string(origin)},
          {.name = "Vary", .value = "Origin"},
          {.name = "Access-Control-Expose-Headers",
           .value = "x-request-id, Retry-After, x-ratelimit-limit-requests, "
                    "x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
                    "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
                    "x-ratelimit-reset-tokens"}};
}

std::optional<http::Response> Access::gate(const http::Request& request) const {
  const auto reject = [&](const ApiError& error) { return error_response(error, request.path); };
  const std::string_view host = request.header("host");
  if (!hosts_.allows(host)) {
    return reject({403,
                   str("host ", host, " is not allowed; start the server with --allowed-host ",
                       http::host_of(host).value_or("NAME")),
                   {},
                   "host_not_allowed"});
  }
  const std::string_view origin = request.header("origin");
  const bool is_allowed = !origin.empty() && origins_.allows(origin);
  // Browsers send "simple" cross-origin requests without a preflight: without this check any web
  // page could use a server on the user's own machine.
  if (!origin.empty() && !is_allowed && !is_own_origin(request, origin) &&
      request.method != "GET" && request.method != "HEAD") {
    return reject({403,
                   str("origin ", origin, " is not allowed; start the server with --cors-origin ",
                       origin, ", or with --public-url ", origin, " if it is the server's own URL"),
                   {},
                   "origin_not_allowed"});
  }
  if (request.method == "OPTIONS") return preflight_response(request, is_allowed);
  const auto known = keys();
  if (known->empty() || is_public(request) || known->find(request) != nullptr) return std::nullopt;
  const bool has_key = !key_of(request).empty();
  return reject(
      {401,
       has_key ? "the API key is wrong" : "missing API key: send 'Authorization: Bearer KEY'",
       {},
       "invalid_api_key"});
}

Client Access::client_of(const http::Request& request) const {
  const auto known = keys();
  if (const ApiKey* key = known->find(request))
    return {.id = key->id(), .key = key->short_digest(), .is_admin = key->is_admin};
  return {.id = salt_of_text(network_of(request.remote))};
}

ModelChanges Access::model_changes(const http::Request& request) const {
  const auto known = keys();
  const ApiKey* key = known->find(request);
  const bool is_admin = known->empty() ? is_private_ : key != nullptr && key->is_admin;
  if (is_admin) return ModelChanges::All;
  return allow_pull_ ? ModelChanges::FromHubs : ModelChanges::None;
}

std::uint64_t Access::cache_salt(const http::Request& request,
                                 const std::string& client_salt) const {
  const auto known = keys();
  const ApiKey* key = separate_caches_ ? known->find(request) : nullptr;
  const std::uint64_t salt = key == nullptr ? 0 : key->id();
  return client_salt.empty() ? salt : salt_of_text(str(salt, ":", client_salt));
}

}  // namespace graft::server
