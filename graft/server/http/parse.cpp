#include "graft/server/http/parse.h"

#include <algorithm>
#include <string_view>

namespace graft::server::http {

namespace beast = boost::beast;

namespace {

// Removes scheme and host of an absolute-form target ("http://host:80/path") and returns the host;
// empty for other targets.
std::string_view remove_authority(std::string_view& target) {
  constexpr std::string_view kSchemes[] = {"http://", "https://"};
  for (const std::string_view scheme : kSchemes) {
    if (lower_case(std::string(target.substr(0, scheme.size()))) != scheme) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
    if (!authority.empty()) target = rest.substr(authority.size());
    return authority;
  }
  return {};
}

}  // namespace

Request to_request(const Parser& parser, const std::string& remote) {
  Request request;
  request.remote = remote;
  const auto& message = parser.get();
  request.method = std::string(message.method_string());
  std::string_view target(message.target().data(), message.target().size());
  const std::string_view authority = remove_authority(target);
  const std::size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  // Other targets stay as they are and are rejected by check_head().
  request.path = path.starts_with('/') ? percent_decoded(path) : std::string(path);
  if (!authority.empty() && path.empty()) request.path = "/";
  if (question != std::string_view::npos) request.query = target.substr(question + 1);
  for (const auto& field : message.base()) {
    request.headers.push_back({.name = lower_case(std::string(field.name_string())),
                               .value = std::string(field.value())});
  }
  // The host of an absolute-form target replaces the Host header (RFC 9112, 3.2.2).
  const auto host = std::ranges::find(request.headers, "host", &Header::name);
  if (!authority.empty() && host != request.headers.end()) host->value = authority;
  request.id = request_id(request.header("x-request-id"));
  return request;
}

int status_of(const boost::system::error_code& error) {
  if (error == beast::http::error::body_limit) return 413;
  if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow)
    return 431;
  const bool is_end =
      error == beast::http::error::end_of_stream || error == beast::http::error::partial_message;
  const bool is_http =
      error.category() == beast::http::make_error_code(beast::http::error::bad_method).category();
  return is_http && !is_end ? 400 : 0;
}

}  // namespace graft::server::http
