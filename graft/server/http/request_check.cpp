#include "graft/server/http/request_check.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/server/http/authority.h"

namespace graft::server::http {
namespace {

std::size_t count_of(const Request& request, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count(request.headers, name, &Header::name));
}

// A body is read only with Content-Length or with exactly "chunked": any other transfer coding
// would leave the body to be read as the next request.
std::optional<HeadError> check_length(const Request& request, bool is_http11) {
  const std::size_t num_lengths = count_of(request, "content-length");
  if (num_lengths > 1)
    return HeadError{400, str(num_lengths, " Content-Length headers, expected one")};
  if (count_of(request, "transfer-encoding") == 0) return std::nullopt;
  if (num_lengths > 0) return HeadError{400, "both Content-Length and Transfer-Encoding"};
  if (!is_http11) return HeadError{400, "Transfer-Encoding in HTTP/1.0"};
  const std::vector<std::string> codings = request.items("transfer-encoding");
  for (const std::string& coding : codings) {
    if (lower_case(coding) != "chunked")
      return HeadError{501, str("transfer coding '", coding, "' is not supported; use chunked")};
  }
  if (codings.size() != 1)
    return HeadError{400, str(codings.size(), " chunked transfer codings, expected one")};
  return std::nullopt;
}

std::optional<HeadError> check_host(const Request& request, bool is_http11) {
  const std::size_t num_hosts = count_of(request, "host");
  if (num_hosts > 1 || (is_http11 && num_hosts == 0))
    return HeadError{400, str(num_hosts, " Host headers, expected one")};
  const std::string_view host = request.header("host");
  if (!host.empty() && !host_of(host)) return HeadError{400, "malformed Host header"};
  return std::nullopt;
}

}  // namespace

std::optional<HeadError> check_head(const Request& request, bool is_http11) {
  if (auto error = check_length(request, is_http11)) return error;
  if (auto error = check_host(request, is_http11)) return error;
  const bool is_any = request.method == "OPTIONS" && request.path == "*";
  if (!request.path.starts_with('/') && !is_any)
    return HeadError{400, "the request target is neither a path nor an http URL"};
  return std::nullopt;
}

}  // namespace graft::server::http
