// A request that gets no answer, and why: the status and the words that clients act on. Handlers
// throw it, and the router writes it as the API that was asked spells errors.

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
  std::string param;  // the field that is wrong; empty: none
  std::string code;   // "model_not_found" …; empty: none
  int retry_after_seconds = 0;
};

// 429: too many ask; it may work after so many seconds.
ApiError busy_error(const std::string& message, int retry_after_seconds);

// {"error": {"message", "type", "param", "code"}} as OpenAI's clients expect it; {"error": "…"} for
// paths under /api, as Ollama's do.
http::Response error_response(const ApiError& error, std::string_view path);
// The body alone, for streams that have begun.
std::string error_body(const ApiError& error, std::string_view path);

}  // namespace graft::server
