// An HTTP client (libcurl): redirects, ranges, proxies from the environment, and retries with
// back-off. One object per thread; it keeps its connections open.
//
// Credentials are never sent to another host that a server redirects to, and https is never
// redirected to http. A registry that wants a token and names the URL that gives it
// (challenge.h) gets one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "graft/base/error.h"

namespace graft::hub {

// The file of trusted certificates: CURL_CA_BUNDLE, SSL_CERT_FILE, else the one of this
// distribution, because libcurl may come from another one. Empty: libcurl's default. Throws Error
// when a variable names a file that cannot be read.
std::string certificate_file();

struct HttpConfig {
  bool is_offline = false;           // every request is an Error
  int max_attempts = 6;              // for broken connections and 408, 429, 500, 502, 503, 504
  double first_delay_seconds = 0.5;  // doubled after each attempt
  double max_delay_seconds = 30;
  double max_retry_after_seconds = 300;  // a server that wants a longer pause is an Error
  double connect_seconds = 15;
  double stall_seconds = 30;  // without a byte
  double total_seconds = 0;   // of an attempt; 0: unlimited
  int max_redirects = 10;     // 0: a redirect is returned
  bool has_proxy = true;      // false: proxies of the environment are not used
  // Whether a server that refuses a request may name the URL of a token. It may be any URL.
  bool gets_tokens = true;
  // Whether to connect to an IP address, in its usual form; empty: to any. A connection is refused
  // after the name was resolved, so a name cannot hide its address.
  std::function<bool(const std::string& address)> allows_address = {};
  std::stop_token stop = {};  // ends a request with Cancelled
};

// The caller has requested the stop.
struct Cancelled : Error {
  Cancelled() : Error("cancelled") {}
};

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // exclusive
};

struct HttpRequest {
  std::string url = {};
  std::vector<std::string> headers = {};  // "Name: value"
  std::optional<ByteRange> range = {};
  std::size_t max_body = std::size_t{64} << 20U;  // of `body`; not of what goes to the sink
  // Receives the body of a 200 or 206 response; empty: HttpResponse::body does. A retry continues a
  // range where it broke off.
  std::function<void(std::span<const std::byte> bytes)> sink = {};
  // A retry without a range begins again: drop what the sink has received.
  std::function<void()> restart = {};
};

struct HttpResponse {
  int status = 0;
  std::string url = {};                             // after redirects
  std::string redirect = {};                        // absolute, of a redirect not followed
  std::map<std::string, std::string> headers = {};  // lower-case names; X-… also of the redirects
  std::string body = {};

  std::string header(const std::string& name) const;  // empty: missing
};

// The numbers of a Content-Range header.
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // exclusive
  std::uint64_t total = 0;
};
// "bytes 0-99/1234"; nullopt for other forms.
std::optional<ContentRange> parse_content_range(std::string_view text);
// The size of the whole file that a 206 or 200 response is of; 0: the server does not tell it.
std::uint64_t total_size(const HttpResponse& response);

class HttpClient {
 public:
  explicit HttpClient(HttpConfig config);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  // Any status that remains after the retries is returned. A server that ignores the range returns
  // 200, and the sink receives nothing. Throws Error for a failed connection, a body over max_body,
  // and a range other than the requested one; Cancelled.
  HttpResponse get(const HttpRequest& request);

 private:
  struct Transfer;
  HttpResponse get_with_retries(const HttpRequest& request);
  bool get_token(const std::string& url, const HttpResponse& refusal);
  bool attempt(Transfer& transfer);  // false: try again
  void pause(double seconds) const;

  HttpConfig config_;
  void* curl_ = nullptr;
  std::string token_origin_;  // whose token `token_` is
  std::string token_;
};

// Throws Error for a status other than 200 and 206: what it means for `subject`, and what to do.
void check_status(const HttpResponse& response, const std::string& subject);

// Percent-encodes a path for a URL; '/' stays.
std::string encode_path(std::string_view path);

}  // namespace graft::hub
