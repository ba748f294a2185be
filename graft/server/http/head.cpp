#include "graft/server/http/head.h"

#include <fmt/format.h>

#include "graft/base/check.h"

namespace graft::server::http {
namespace {

std::string_view reason(int status) {
  struct Row {
    int status;
    std::string_view text;
  };
  static constexpr Row kRows[] = {
      {200, "OK"},
      {204, "No Content"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {413, "Content Too Large"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {529, "Overloaded"},  // Anthropic's
  };
  for (const Row& row : kRows) {
    if (row.status == status) return row.text;
  }
  return "Status";
}

// Prevents header injection by values taken from a request.
bool is_header_text(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

}  // namespace

std::string head_text(const Head& head) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason(head.status));
  if (!head.content_type.empty()) text += fmt::format("Content-Type: {}\r\n", head.content_type);
  if (head.length) text += fmt::format("Content-Length: {}\r\n", *head.length);
  if (head.chunked) text += "Transfer-Encoding: chunked\r\n";
  if (!head.keep_alive) text += "Connection: close\r\n";
  for (const Header& header : head.headers) {
    GRAFT_CHECK(is_header_text(header.name) && is_header_text(header.value), header.name);
    text += fmt::format("{}: {}\r\n", header.name, header.value);
  }
  return text + "\r\n";
}

std::string chunk_text(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace graft::server::http
