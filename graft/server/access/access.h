// Access control by API key and by web origin (CORS), checked before the request body is read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/server/access/api_keys.h"
#include "graft/server/http/message.h"

namespace graft::server {

struct AccessConfig {
  ApiKeys keys = {};
  std::vector<std::string> origins = {};  // allowed web origins; "*": all; empty: only our own
  bool separate_caches = true;            // no prefix-cache sharing between API keys
};

class Access {
 public:
  explicit Access(AccessConfig config) : config_(std::move(config)) {}

  // The response that ends a request early: 401 without a valid key, 403 for a foreign origin, 204
  // for a CORS preflight (OPTIONS). nullopt: the request is accepted.
  std::optional<http::Response> gate(const http::Request& request) const;
  // CORS headers for every response to this request.
  std::vector<http::Header> headers(const http::Request& request) const;
  // The prefix-cache salt from the API key and from the client's own `cache_salt` field; 0:
  // neither.
  std::uint64_t cache_salt(const http::Request& request, const std::string& client_salt = {}) const;

 private:
  bool is_allowed_origin(std::string_view origin) const;

  AccessConfig config_;
};

}  // namespace graft::server
