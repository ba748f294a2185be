// Hosts and IP addresses as they appear in requests: "localhost:8000", "[::1]:8000".

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graft::server::http {

// The host of "host:port" in lower case, without port, brackets and trailing dot. nullopt:
// malformed.
std::optional<std::string> host_of(std::string_view authority);

// An IPv6 address, or an IPv4 address mapped into IPv6 (::ffff:1.2.3.4), in network byte order.
using IpAddress = std::array<std::uint8_t, 16>;

// nullopt: not an IP address, for example a name.
std::optional<IpAddress> parse_ip(const std::string& text);

}  // namespace graft::server::http
