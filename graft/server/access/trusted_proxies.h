// Reverse proxies whose X-Forwarded-For and X-Forwarded-Host headers are believed. From any other
// client these headers are ignored: clients could choose their address and host.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/server/http/authority.h"
#include "graft/server/http/message.h"

namespace graft::server {

class TrustedProxies {
 public:
  // Each an IP address or a network such as 10.0.0.0/8. Throws Error.
  explicit TrustedProxies(const std::vector<std::string>& networks = {});

  // For a request from a trusted proxy: sets `remote` to the client's address and the Host header
  // to the host that the client used.
  void apply(http::Request& request) const;

 private:
  struct Network {
    http::IpAddress address = {};
    int num_bits = 128;
  };

  static Network parse(const std::string& text);
  bool contains(const std::string& remote) const;

  std::vector<Network> networks_;
};

}  // namespace graft::server
