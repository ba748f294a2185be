// An error response: HTTP status, message and the machine-readable fields clients act on. Handlers
// throw it; the router formats it for the API the request was sent to.

#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "graft/server/http/message.h"

namespace graft::server {

class ApiError : public std::runtime_error {
 public:
  ApiError(int status_code,
           const std::string& message,
           std::string field = {},
           std::string name = {});

  int status;
  std::string param;  // name of the invalid field; empty: none
  std::string code;   // "model_not_found" …; empty: none
  int retry_after_seconds = 0;
};

// 429 with a Retry-After header.
ApiError busy_error(const std::string& message, int retry_after_seconds);

// The text with absolute paths cut to file names: clients must not learn the server's folders.
std::string without_folders(const std::string& text);

// Paths of Anthropic's API.
bool is_anthropic(std::string_view path);

// OpenAI's format {"error": {"message", "type", "param", "code"}}; for paths under /api Ollama's
// format {"error": "…"}, for is_anthropic() paths {"type": "error", "error": {"type", "message"}}
// with status 529 for a server that has no room. Messages of status 500 and above are
// without_folders().
http::Response error_response(const ApiError& error, std::string_view path);
// Only the body, for a stream whose headers were already sent.
std::string error_body(const ApiError& error, std::string_view path);

}  // namespace graft::server
