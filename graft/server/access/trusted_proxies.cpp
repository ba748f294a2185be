#include "graft/server/access/trusted_proxies.h"

#include <algorithm>
#include <charconv>

#include "graft/base/error.h"

namespace graft::server {
namespace {

constexpr int kMappedBits = 96;  // prefix of an IPv4 address mapped into IPv6

// "1.2.3.4", "1.2.3.4:567", "::1" or "[::1]:567"; empty when it is none of these.
std::string address_of(const std::string& text) {
  if (http::parse_ip(text)) return text;
  const auto host = http::host_of(text);
  return host && http::parse_ip(*host) ? *host : "";
}

bool has_prefix(const http::IpAddress& address, const http::IpAddress& prefix, int num_bits) {
  const auto num_bytes = static_cast<std::size_t>(num_bits / 8);
  if (!std::equal(prefix.begin(), prefix.begin() + num_bits / 8, address.begin())) return false;
  const int rest = num_bits % 8;
  if (rest == 0) return true;
  const int mask = 0xff & (0xff << (8 - rest));
  return ((address.at(num_bytes) ^ prefix.at(num_bytes)) & mask) == 0;
}

}  // namespace

TrustedProxies::TrustedProxies(const std::vector<std::string>& networks) {
  for (const std::string& text : networks)
    networks_.push_back(parse(text));
}

TrustedProxies::Network TrustedProxies::parse(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto address = http::parse_ip(text.substr(0, slash));
  const int max_bits = text.find(':') == std::string::npos ? 32 : 128;
  int num_bits = max_bits;
  bool is_valid = address.has_value();
  if (slash != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + slash + 1, end, num_bits);
    is_valid = is_valid && parsed.ec == std::errc() && parsed.ptr == end && num_bits >= 0 &&
               num_bits <= max_bits;
  }
  if (!is_valid) {
    fail("--trusted-proxy: expected an IP address or a network such as 10.0.0.0/8, got '", text,
         "'");
  }
  return {.address = *address, .num_bits = max_bits == 32 ? kMappedBits + num_bits : num_bits};
}

bool TrustedProxies::contains(const std::string& remote) const {
  const auto address = http::parse_ip(remote);
  return address && std::ranges::any_of(networks_, [&](const Network& network) {
           return has_prefix(*address, network.address, network.num_bits);
         });
}

void TrustedProxies::apply(http::Request& request) const {
  if (!contains(request.remote)) return;
  // The last item of each header is the one that the proxy wrote; clients may have sent others.
  const std::vector<std::string> hosts = request.items("x-forwarded-host");
  const auto host = std::ranges::find(request.headers, "host", &http::Header::name);
  if (!hosts.empty() && host != request.headers.end()) host->value = hosts.back();
  std::vector<std::string> clients = request.items("x-forwarded-for");
  while (!clients.empty() && contains(request.remote)) {
    const std::string address = address_of(clients.back());
    if (address.empty()) return;
    request.remote = address;
    clients.pop_back();
  }
}

}  // namespace graft::server
