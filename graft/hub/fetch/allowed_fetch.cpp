#include "graft/hub/fetch/allowed_fetch.h"

#include <algorithm>
#include <chrono>

#include "graft/base/error.h"
#include "graft/hub/http/http.h"

namespace graft::hub {
namespace {

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

std::string fetch_allowed(const std::string& url,
                          const AllowedHosts& hosts,
                          const FetchLimits& limits,
                          const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(limits.seconds);
  HttpRequest request = {.url = url, .headers = {"Accept: image/*"}, .max_body = limits.max_bytes};
  UrlHost before;
  for (int num_redirects = 0; num_redirects <= limits.max_redirects; ++num_redirects) {
    const UrlHost host = parse_url(request.url);
    if (!hosts.allows(host)) {
      fail("the host '", host.host, "' with port ", host.port,
           num_redirects > 0 ? ", to which the server redirects," : "", " is not allowed");
    }
    if (before.scheme == "https" && host.scheme == "http")
      fail("the server redirects from https to http");
    before = host;
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0) fail("took more than ", limits.seconds, " seconds");
    HttpClient client(
        {.max_attempts = 1,
         .connect_seconds = std::min(left, 10.0),
         .stall_seconds = 10,
         .total_seconds = left,
         .max_redirects = 0,
         .has_proxy = false,
         .gets_tokens = false,
         .allows_address =
             [&hosts](const std::string& address) { return hosts.allows_address(address); },
         .stop = stop});
    const HttpResponse response = client.get(request);
    if (response.status == 200) return response.body;
    if (!is_redirect(response.status) || response.redirect.empty())
      fail("the server answered with status ", response.status);
    request.url = response.redirect;
  }
  fail("more than ", limits.max_redirects, " redirects");
}

}  // namespace graft::hub
