#include "graft/server/http/framing.h"

#include <optional>
#include <string_view>
#include <utility>

#include "graft/server/http/head.h"

namespace graft::server::http {
namespace {

constexpr std::string_view kHeadStart = "HTTP/1.1 ";

}  // namespace

std::string Framing::probe_text() {
  if (has_head) return is_http11 ? "0" : "";
  if (std::exchange(num_probed, kHeadStart.size()) > 0) return "";
  return std::string(kHeadStart);
}

std::string Framing::unsent(const std::string& head) {
  has_head = true;
  return head.substr(std::exchange(num_probed, 0));
}

std::string Framing::response_head(const Response& response) {
  std::vector<Header> all = response.headers;
  all.insert(all.end(), headers.begin(), headers.end());
  const bool has_content = response.status != 204;
  return unsent(head_text(
      {.status = response.status,
       .content_type = has_content ? std::string_view(response.content_type) : std::string_view(),
       .length = has_content ? std::optional(response.body.size()) : std::nullopt,
       .keep_alive = keep_alive,
       .headers = std::move(all)}));
}

std::string Framing::stream_head(StreamHead head) {
  keep_alive = keep_alive && is_http11;
  keep_alive_text = std::move(head.keep_alive);
  head.headers.insert(head.headers.end(), headers.begin(), headers.end());
  head.headers.push_back({.name = "Cache-Control", .value = "no-cache"});
  head.headers.push_back({.name = "X-Accel-Buffering", .value = "no"});  // disables nginx buffering
  return unsent(head_text({.content_type = head.content_type,
                           .chunked = is_http11,
                           .keep_alive = keep_alive,
                           .headers = std::move(head.headers)}));
}

std::string Framing::stream_text(LiveExchange::Output output) {
  std::string text;
  if (output.head) text = stream_head(*std::move(output.head));
  if (!output.bytes.empty()) text += is_http11 ? chunk_text(output.bytes) : output.bytes;
  if (output.is_end && is_http11) text += kLastChunk;
  return text;
}

}  // namespace graft::server::http
