// Access control by host name, web origin (CORS) and API key, checked before the request body is
// read.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "graft/server/access/api_keys.h"
#include "graft/server/access/hosts.h"
#include "graft/server/access/origins.h"
#include "graft/server/access/trusted_proxies.h"
#include "graft/server/http/message.h"

namespace graft::server {

struct AccessConfig {
  ApiKeys keys = {};
  std::vector<std::string> origins = {};  // allowed web origins besides the default ones
  std::vector<std::string> hosts = {};    // allowed host names besides the default ones
  std::string bound_host = {};            // address or name that the server listens on
  std::string public_url = {};            // where clients reach the server; empty: unknown
  std::vector<std::string> trusted_proxies = {};
  // --allow-pull: any client may pull, create, copy and delete models.
  bool allow_pull = false;
  bool separate_caches = true;  // no prefix-cache sharing between API keys
};

// The client that a request counts for.
struct Client {
  std::uint64_t id = 0;   // of its API key; without keys, of its IPv4 address or IPv6 /64 network
  std::string key = {};   // ApiKey::short_digest(); empty: no key
  bool is_admin = false;  // has an admin key
};

// Which changes of the models a client may request: none, all but downloads from any URL, or all.
enum class ModelChanges : std::uint8_t { None, FromHubs, All };

class Access {
 public:
  // Throws Error for a malformed host, URL or proxy.
  explicit Access(const AccessConfig& config);
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  ~Access() = default;

  // Replaces the API keys; callable from any thread.
  void set_keys(ApiKeys keys);
  std::shared_ptr<const ApiKeys> keys() const;
  // Sets client address and host of a request from a trusted proxy. Before the other functions.
  void resolve_client(http::Request& request) const { proxies_.apply(request); }

  // The response that ends a request early: 401 without a valid key, 403 for a host or an origin
  // that is not allowed, 204 for a CORS preflight (OPTIONS). nullopt: the request is accepted.
  std::optional<http::Response> gate(const http::Request& request) const;
  // CORS headers for every response to this request.
  std::vector<http::Header> headers(const http::Request& request) const;
  Client client_of(const http::Request& request) const;
  // All with an admin key, or without keys on a server that only this machine reaches directly.
  ModelChanges model_changes(const http::Request& request) const;
  // The prefix-cache salt from the API key and from the client's own `cache_salt` field; 0:
  // neither.
  std::uint64_t cache_salt(const http::Request& request, const std::string& client_salt = {}) const;

 private:
  bool is_own_origin(const http::Request& request, std::string_view origin) const;

  const AllowedHosts hosts_;
  const AllowedOrigins origins_;
  const TrustedProxies proxies_;
  const std::string public_origin_;  // empty: unknown
  const bool allow_pull_;
  const bool is_private_;  // only this machine reaches it, without a proxy
  const bool separate_caches_;
  mutable std::mutex mutex_;  // guards the pointer, not the keys, which do not change
  std::shared_ptr<const ApiKeys> keys_;
};

}  // namespace graft::server
