#include "graft/server/http/authority.h"

#include <algorithm>

#include <arpa/inet.h>

#include "graft/server/http/message.h"

namespace graft::server::http {
namespace {

constexpr std::size_t kMappedPrefix = 12;  // bytes before the IPv4 address

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool is_port(std::string_view text) {
  return text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::string> host_of(std::string_view authority) {
  const bool is_bracketed = authority.starts_with('[');
  const std::size_t end = is_bracketed ? authority.find(']') : authority.find(':');
  if (is_bracketed && end == std::string_view::npos) return std::nullopt;
  const std::string host(authority.substr(is_bracketed ? 1 : 0, is_bracketed ? end - 1 : end));
  std::string_view rest = end == std::string_view::npos ? "" : authority.substr(end);
  if (is_bracketed) rest.remove_prefix(1);
  if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return std::nullopt;
  if (is_bracketed) return parse_ip(host) ? std::optional(lower_case(host)) : std::nullopt;
  std::string name = lower_case(host);
  if (name.ends_with('.')) name.pop_back();
  if (name.empty() || !std::ranges::all_of(name, is_name_char)) return std::nullopt;
  return name;
}

std::optional<IpAddress> parse_ip(const std::string& text) {
  IpAddress address = {};
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  if (::inet_pton(AF_INET, text.c_str(), address.data() + kMappedPrefix) != 1) return std::nullopt;
  address[10] = address[11] = 0xff;
  return address;
}

}  // namespace graft::server::http
