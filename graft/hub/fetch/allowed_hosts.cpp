#include "graft/hub/fetch/allowed_hosts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <span>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"

namespace graft::hub {
namespace {

constexpr int kHttpPort = 80;
constexpr int kHttpsPort = 443;

using Bytes = std::span<const std::uint8_t>;

struct Prefix {
  std::array<std::uint8_t, 4> bytes;
  unsigned bits;
};
constexpr std::array kPrivateV4 = {
    Prefix{{0, 0, 0, 0}, 8},    Prefix{{10, 0, 0, 0}, 8},     Prefix{{100, 64, 0, 0}, 10},
    Prefix{{127, 0, 0, 0}, 8},  Prefix{{169, 254, 0, 0}, 16}, Prefix{{172, 16, 0, 0}, 12},
    Prefix{{192, 0, 0, 0}, 24}, Prefix{{192, 168, 0, 0}, 16}, Prefix{{198, 18, 0, 0}, 15},
    Prefix{{224, 0, 0, 0}, 3}};  // multicast and reserved

bool has_prefix(Bytes address, Bytes prefix, unsigned bits) {
  for (unsigned bit = 0; bit < bits; ++bit) {
    const unsigned mask = 0x80U >> bit % 8;
    if ((address[bit / 8] & mask) != (prefix[bit / 8] & mask)) return false;
  }
  return true;
}

bool is_private_v4(Bytes address) {
  return std::ranges::any_of(kPrivateV4, [&](const Prefix& prefix) {
    return has_prefix(address, prefix.bytes, prefix.bits);
  });
}

// All but the global unicast addresses 2000::/3; of those, the ones with an IPv4 address inside
// (6to4, NAT64, mapped) by that.
bool is_private_v6(Bytes address) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::array<std::uint8_t, 12> kNat64 = {0, 0x64, 0xff, 0x9b};
  constexpr std::array<std::uint8_t, 2> k6to4 = {0x20, 0x02};
  constexpr std::array<std::uint8_t, 1> kGlobal = {0x20};
  if (has_prefix(address, kMapped, 96) || has_prefix(address, kNat64, 96))
    return is_private_v4(address.subspan(12));
  if (has_prefix(address, k6to4, 16)) return is_private_v4(address.subspan(2, 4));
  return !has_prefix(address, kGlobal, 3);
}

std::string without_brackets(std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

std::string normal_host(std::string_view host) {
  std::string name = without_brackets(lower_case(host));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

// A part of a parsed URL; empty: it has none.
std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, curl_free);
  return text;
}

}  // namespace

UrlHost parse_url(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK)
    fail("not a valid http or https URL");
  UrlHost result = {.scheme = part_of(parsed.get(), CURLUPART_SCHEME),
                    .host = normal_host(part_of(parsed.get(), CURLUPART_HOST))};
  if (result.scheme != "http" && result.scheme != "https") fail("not a valid http or https URL");
  if (result.host.empty()) fail("the URL has no host");
  if (!part_of(parsed.get(), CURLUPART_USER).empty() ||
      !part_of(parsed.get(), CURLUPART_PASSWORD).empty())
    fail("user names in URLs are not allowed");
  const std::string port = part_of(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  std::from_chars(port.data(), port.data() + port.size(), result.port);
  return result;
}

bool is_private_address(const std::string& address) {
  std::array<std::uint8_t, 4> v4 = {};
  if (::inet_pton(AF_INET, address.c_str(), v4.data()) == 1) return is_private_v4(v4);
  std::array<std::uint8_t, 16> v6 = {};
  if (::inet_pton(AF_INET6, address.c_str(), v6.data()) == 1) return is_private_v6(v6);
  return true;
}

AllowedHosts::Entry AllowedHosts::parse_entry(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const bool is_v6 = text.find(':') != colon && !text.starts_with('[');
  const bool has_port = colon != std::string_view::npos && !is_v6 && !text.ends_with(']');
  Entry entry = {.host = normal_host(has_port ? text.substr(0, colon) : text)};
  bool is_valid = !entry.host.empty() && entry.host.find_first_of("/@*?# ") == std::string::npos;
  if (has_port) {
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), entry.port);
    is_valid = is_valid && error == std::errc() && end == port.data() + port.size() &&
               entry.port > 0 && entry.port < 65536;
  }
  if (!is_valid) fail("'", text, "': expected HOST or HOST:PORT, such as images.example.com");
  return entry;
}

AllowedHosts::AllowedHosts(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries)
    hosts_.push_back(parse_entry(entry));
}

bool AllowedHosts::allows(const UrlHost& url) const {
  return std::ranges::any_of(hosts_, [&](const Entry& entry) {
    const bool is_port =
        entry.port == 0 ? url.port == kHttpPort || url.port == kHttpsPort : url.port == entry.port;
    return is_port && entry.host == url.host;
  });
}

bool AllowedHosts::allows_address(const std::string& address) const {
  if (!is_private_address(address)) return true;
  const bool is_loopback = address.starts_with("127.") || address == "::1";
  return std::ranges::any_of(hosts_, [&](const Entry& entry) {
    return entry.host == address || (is_loopback && entry.host == "localhost");
  });
}

}  // namespace graft::hub
