#include "graft/server/http/parse.h"

#include <string_view>

namespace graft::server::http {

namespace beast = boost::beast;

Request to_request(const Parser& parser, const std::string& remote) {
  Request request;
  request.remote = remote;
  const auto& message = parser.get();
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const std::size_t question = target.find('?');
  request.path = percent_decoded(target.substr(0, question));
  if (question != std::string_view::npos) request.query = target.substr(question + 1);
  for (const auto& field : message.base()) {
    request.headers.push_back({.name = lower_case(std::string(field.name_string())),
                               .value = std::string(field.value())});
  }
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
