// Text of HTTP/1.1 response heads and body chunks.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/server/http/message.h"

namespace graft::server::http {

struct Head {
  int status = 200;
  std::string_view content_type = {};  // empty: no header, as for 204
  std::optional<std::size_t> length = {};
  bool chunked = false;
  bool keep_alive = true;
  std::vector<Header> headers = {};
};

std::string head_text(const Head& head);

// `bytes` must not be empty: an empty chunk ends the body.
std::string chunk_text(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace graft::server::http
