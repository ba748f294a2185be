#include "graft/server/access/hosts.h"

#include <array>

#include <unistd.h>

#include "graft/base/error.h"
#include "graft/server/http/authority.h"
#include "graft/server/http/message.h"

namespace graft::server {
namespace {

std::string machine_name() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return http::lower_case(name.data());
}

}  // namespace

AllowedHosts::AllowedHosts(const std::string& bound, const std::vector<std::string>& names)
    : names_({"localhost", http::lower_case(bound), machine_name()}) {
  for (const std::string& name : names) {
    if (name == "*") {
      allows_all_ = true;
      continue;
    }
    const auto host = http::host_of(name);
    if (!host) fail("--allowed-host: expected a host name or *, got '", name, "'");
    names_.insert(*host);
  }
}

bool AllowedHosts::allows(std::string_view authority) const {
  if (authority.empty() || allows_all_) return true;
  const auto host = http::host_of(authority);
  if (!host) return false;
  return names_.contains(*host) || host->ends_with(".localhost") || http::parse_ip(*host);
}

std::string origin_of_url(const std::string& url) {
  std::string origin = http::lower_case(url);
  if (origin.ends_with('/')) origin.pop_back();
  const std::size_t scheme_end = origin.find("://");
  const std::string scheme = origin.substr(0, scheme_end);
  const bool is_http = scheme == "http" || scheme == "https";
  if (!is_http || scheme_end == std::string::npos || !http::host_of(origin.substr(scheme_end + 3)))
    fail("--public-url: expected http://HOST[:PORT] or https://HOST[:PORT], got '", url, "'");
  const std::string_view default_port = scheme == "http" ? ":80" : ":443";
  if (origin.ends_with(default_port)) origin.resize(origin.size() - default_port.size());
  return origin;
}

}  // namespace graft::server
