// Fuzzes one HTTP connection: heads, bodies with a length and chunked bodies. The result must not
// depend on how the bytes arrive, and a request that passes the checks must have one meaning: a
// second, simpler reader of the body finds the same bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graft/base/check.h"
#include "graft/server/access/hosts.h"
#include "graft/server/access/trusted_proxies.h"
#include "graft/server/http/parse.h"
#include "graft/server/http/request_check.h"

namespace {

namespace http = graft::server::http;

struct Result {
  bool is_complete = false;  // valid head and body
  std::optional<http::Request> request = {};
};

// Gives the parser `piece_size` bytes at a time, as a socket would.
Result parse(std::string_view input, std::size_t piece_size) {
  http::Parser parser;
  parser.eager(true);
  parser.header_limit(1U << 20U);
  parser.body_limit(1U << 20U);
  Result result;
  std::string pending;
  boost::system::error_code error;
  while (!parser.is_done() && !input.empty()) {
    const std::string_view piece = input.substr(0, piece_size);
    input.remove_prefix(piece.size());
    pending += piece;
    const std::size_t count = parser.put(boost::asio::buffer(pending), error);
    pending.erase(0, count);
    if (error == boost::beast::http::error::need_more) error = {};
    if (error) break;
  }
  if (error) GRAFT_CHECK(http::status_of(error) < 500, "status ", http::status_of(error));
  if (!parser.is_header_done()) return result;
  result.request = http::to_request(parser, "127.0.0.1");
  const auto problem = http::check_head(*result.request, parser.get().version() >= 11);
  if (problem) {
    GRAFT_CHECK(problem->status == 400 || problem->status == 501, "status ", problem->status);
    return result;
  }
  result.is_complete = !error && parser.is_done();
  if (result.is_complete) result.request->body = parser.get().body();
  return result;
}

// The chunked body at the start of `text` without trailers; nullopt when it is not complete.
std::optional<std::string> dechunk(std::string_view text) {
  std::string body;
  for (;;) {
    const std::size_t end = text.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    const std::string line(text.substr(0, end));
    text.remove_prefix(end + 2);
    const std::size_t size = std::strtoul(line.c_str(), nullptr, 16);
    if (size == 0) return body;
    if (text.size() < size + 2) return std::nullopt;
    body += text.substr(0, size);
    text.remove_prefix(size + 2);
  }
}

// A request that is served has exactly one way to be read.
void check_body(const http::Request& request, std::string_view input) {
  const std::string_view body = input.substr(input.find("\r\n\r\n") + 4);
  const std::string_view length = request.header("content-length");
  const std::string_view encoding = request.header("transfer-encoding");
  GRAFT_CHECK(length.empty() || encoding.empty(), "length ", length, ", encoding ", encoding);
  if (!encoding.empty()) {
    GRAFT_CHECK(http::lower_case(std::string(request.items("transfer-encoding").at(0))) ==
                "chunked");
    GRAFT_CHECK(dechunk(body) == request.body, "chunked body ", request.body);
  } else if (!length.empty()) {
    const std::size_t size = std::stoul(std::string(length));
    GRAFT_CHECK(request.body == body.substr(0, size), "body ", request.body);
  } else {
    GRAFT_CHECK(request.body.empty(), "body ", request.body);
  }
}

void check_client(http::Request request) {
  static const graft::server::AllowedHosts hosts("127.0.0.1", {"graft.lan"});
  static const graft::server::TrustedProxies proxies({"127.0.0.0/8"});
  const std::string_view host = request.header("host");
  const bool is_named = host.find("evil") != std::string_view::npos;
  GRAFT_CHECK(!is_named || host.find(".localhost") != std::string_view::npos || !hosts.allows(host),
              "host ", host);
  proxies.apply(request);
  GRAFT_CHECK(http::parse_ip(request.remote), "remote ", request.remote);
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece_size = 1 + data[0] % 64U;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Result whole = parse(input, std::max<std::size_t>(input.size(), 1));
  const Result pieces = parse(input, piece_size);
  // Errors of incomplete input may be found earlier or later.
  GRAFT_CHECK(whole.is_complete == pieces.is_complete, "complete at once: ", whole.is_complete);
  if (whole.request) check_client(*whole.request);
  if (!whole.is_complete) return 0;
  GRAFT_CHECK(whole.request->body == pieces.request->body, "body ", whole.request->body);
  check_body(*whole.request, input);
  return 0;
}
