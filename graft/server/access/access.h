// Who may ask what, decided before the body of a request is read: keys, and origins of web pages.

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
  std::vector<std::string> origins = {};  // of pages that may ask; "*": all; empty: none
  bool separate_caches = true;            // requests with different keys share no prefixes
};

class Access {
 public:
  explicit Access(AccessConfig config) : config_(std::move(config)) {}

  // The answer to a request that goes no further: no key, a page from elsewhere, or a browser that
  // asks what it may (OPTIONS).
  std::optional<http::Response> gate(const http::Request& request) const;
  // What every answer to this request carries, so that a browser shows it to the page.
  std::vector<http::Header> headers(const http::Request& request) const;
  // Of the key, and of what the client itself gives to keep requests apart; 0: neither.
  std::uint64_t cache_salt(const http::Request& request, const std::string& given = {}) const;

 private:
  bool is_allowed_origin(std::string_view origin) const;

  AccessConfig config_;
};

}  // namespace graft::server
