#include "graft/server/api_error.h"

#include <algorithm>
#include <utility>

#include "graft/server/json_text.h"

namespace graft::server {
namespace {

constexpr int kOverloaded = 529;

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

// The status that Anthropic's clients know: 529 is a busy server, 429 the limit of one client.
int anthropic_status(const ApiError& error) {
  return error.status == 503 || error.code == "queue_full" ? kOverloaded : error.status;
}

const char* anthropic_type(int status) {
  switch (status) {
    case 413:
      return "request_too_large";
    case 408:
      return "timeout_error";
    case kOverloaded:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : type_of(status);
  }
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

ApiError::ApiError(int status_code, const std::string& message, std::string field, std::string name)
    : std::runtime_error(message),
      status(status_code),
      param(std::move(field)),
      code(std::move(name)) {}

ApiError busy_error(const std::string& message, int retry_after_seconds) {
  ApiError error(429, message, {}, "queue_full");
  error.retry_after_seconds = retry_after_seconds;
  return error;
}

std::string without_folders(const std::string& text) {
  // A path may contain blanks: it ends at the last slash before one of these.
  constexpr std::string_view kEnds = ":;,\"'`()<>\n";
  constexpr std::string_view kBefore = " \t=~.[";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool is_start = at == 0 || kEnds.find(text[at - 1]) != std::string_view::npos ||
                          kBefore.find(text[at - 1]) != std::string_view::npos;
    if (text[at] != '/' || !is_start) {
      out += text[at++];
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(kEnds, at), text.size());
    at = text.rfind('/', end - 1) + 1;
  }
  return out;
}

bool is_anthropic(std::string_view path) {
  return path == "/v1/messages" || path.starts_with("/v1/messages/");
}

std::string error_body(const ApiError& error, std::string_view path) {
  const std::string message = error.status < 500 ? error.what() : without_folders(error.what());
  if (path.starts_with("/api/")) return json_text({{"error", message}});
  if (is_anthropic(path)) {
    return ordered_text(
        {{"type", "error"},
         {"error", {{"type", anthropic_type(anthropic_status(error))}, {"message", message}}}});
  }
  return json_text({{"error",
                     {{"message", message},
                      {"type", type_of(error.status)},
                      {"param", text_or_null(error.param)},
                      {"code", text_or_null(error.code)}}}});
}

http::Response error_response(const ApiError& error, std::string_view path) {
  http::Response response = {.status = is_anthropic(path) ? anthropic_status(error) : error.status,
                             .body = error_body(error, path)};
  if (error.retry_after_seconds > 0) {
    response.headers.push_back(
        {.name = "Retry-After", .value = std::to_string(error.retry_after_seconds)});
  }
  if (error.status == 401)
    response.headers.push_back({.name = "WWW-Authenticate", .value = "Bearer"});
  return response;
}

}  // namespace graft::server
