// Fetches a URL that a client of the server chose, from allowed hosts only, also after redirects.

#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

#include "graft/hub/fetch/allowed_hosts.h"

namespace graft::hub {

struct FetchLimits {
  std::size_t max_bytes = std::size_t{32} << 20U;
  double seconds = 20;  // of all redirects together
  int max_redirects = 5;
};

// The body of the answer 200. Throws Error for a host or an address that is not allowed, a redirect
// from https to http, another status, and what exceeds the limits; Cancelled (http.h). Proxies of
// the environment are not used: they would hide the address.
std::string fetch_allowed(const std::string& url,
                          const AllowedHosts& hosts,
                          const FetchLimits& limits,
                          const std::stop_token& stop);

}  // namespace graft::hub
