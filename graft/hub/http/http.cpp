#include "graft/hub/http/http.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "graft/base/check.h"
#include "graft/base/text/ascii.h"
#include "graft/hub/http/challenge.h"
#include "graft/version.h"

namespace graft::hub {
namespace {

constexpr std::size_t kMaxHeaders = 200;
constexpr std::size_t kMaxErrorBody = 64U << 10U;

bool is_transient(int status) {
  constexpr std::array kStatuses = {408, 429, 500, 502, 503, 504};
  return std::ranges::find(kStatuses, status) != kStatuses.end();
}

bool is_transient_error(CURLcode code) {
  constexpr std::array kCodes = {
      CURLE_COULDNT_CONNECT, CURLE_PARTIAL_FILE,        CURLE_OPERATION_TIMEDOUT,
      CURLE_GOT_NOTHING,     CURLE_SEND_ERROR,          CURLE_RECV_ERROR,
      CURLE_HTTP2,           CURLE_HTTP2_STREAM,        CURLE_SSL_CONNECT_ERROR,
      CURLE_AGAIN,           CURLE_COULDNT_RESOLVE_HOST};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

template <class Value>
void set(void* curl, CURLoption option, Value value) {
  GRAFT_CHECK(curl_easy_setopt(curl, option, value) == CURLE_OK, "curl option ", option);
}

// "127.0.0.1", "::1"; empty for other families.
std::string address_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (address.sa_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  const bool is_text = bytes != nullptr &&
                       ::inet_ntop(address.sa_family, bytes, text.data(), text.size()) != nullptr;
  return is_text ? text.data() : std::string();
}

bool read_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const std::size_t dash = text.find('-');
  const std::size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash)
    return std::nullopt;
  ContentRange range;
  std::uint64_t last = 0;
  const bool is_valid = read_number(text.substr(0, dash), range.begin) &&
                        read_number(text.substr(dash + 1, slash - dash - 1), last) &&
                        read_number(text.substr(slash + 1), range.total);
  if (!is_valid || range.begin > last || last >= range.total) return std::nullopt;
  range.end = last + 1;
  return range;
}

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

// The state of one get() over all attempts.
struct HttpClient::Transfer {
  const HttpRequest& request;
  const HttpConfig& config;
  void* curl;
  int attempt = 0;
  std::uint64_t num_received = 0;  // by the sink, over all attempts of a range
  HttpResponse response = {};
  bool is_checked = false;   // the head of the response is
  std::string problem = {};  // why a callback ended the transfer
  bool has_ignored_range = false;
  std::exception_ptr exception = {};  // of the sink
  std::string refused_address = {};   // by HttpConfig::allows_address

  bool is_success() const { return response.status == 200 || response.status == 206; }

  bool refuse(std::string why) {
    problem = std::move(why);
    return false;
  }

  // Whether the body may be read.
  bool check_head() {
    if (is_checked) return true;
    is_checked = true;
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    if (!request.range || !is_success()) return true;
    if (response.status == 200) {
      has_ignored_range = true;
      return false;
    }
    const auto range = parse_content_range(response.header("content-range"));
    if (!range) return refuse("a partial response without a valid Content-Range");
    if (range->begin != request.range->begin + num_received || range->end > request.range->end) {
      return refuse(str("bytes ", range->begin, " to ", range->end, " instead of ",
                        request.range->begin + num_received, " to ", request.range->end));
    }
    return true;
  }

  bool receive(std::span<const std::byte> bytes) {
    if (!check_head()) return false;
    if (is_success() && request.sink) {
      if (request.range && bytes.size() > request.range->end - request.range->begin - num_received)
        return refuse("more bytes than the range has");
      request.sink(bytes);
      num_received += bytes.size();
      return true;
    }
    const std::size_t max = is_success() ? request.max_body : kMaxErrorBody;
    if (response.body.size() + bytes.size() > max) {
      if (!is_success()) return true;  // enough for an error message
      return refuse(str("a response of over ", max, " bytes"));
    }
    response.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }

  void receive_header(std::string_view line) {
    if (line.starts_with("HTTP/")) {
      std::erase_if(response.headers,
                    [](const auto& header) { return !header.first.starts_with("x-"); });
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || response.headers.size() >= kMaxHeaders) return;
    response.headers[lower_case(line.substr(0, colon))] =
        trimmed(line.substr(colon + 1), " \t\r\n");
  }

  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) noexcept {
    auto& transfer = *static_cast<Transfer*>(self);
    try {
      const std::size_t num_bytes = size * count;
      const bool goes_on = transfer.receive({reinterpret_cast<const std::byte*>(data), num_bytes});
      return goes_on ? num_bytes : 0;
    } catch (...) {
      transfer.exception = std::current_exception();
      return 0;
    }
  }

  static std::size_t on_header(char* data,
                               std::size_t size,
                               std::size_t count,
                               void* self) noexcept {
    auto& transfer = *static_cast<Transfer*>(self);
    try {
      transfer.receive_header({data, size * count});
      return size * count;
    } catch (...) {
      transfer.exception = std::current_exception();
      return 0;
    }
  }

  // Opens a socket to an address that is allowed.
  static curl_socket_t on_socket(void* self,
                                 curlsocktype /*purpose*/,
                                 curl_sockaddr* address) noexcept {
    auto& transfer = *static_cast<Transfer*>(self);
    try {
      const std::string text = address_text(address->addr);
      if (!transfer.config.allows_address(text)) {
        transfer.refused_address = text;
        return CURL_SOCKET_BAD;
      }
      return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    } catch (...) {
      transfer.exception = std::current_exception();
      return CURL_SOCKET_BAD;
    }
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
    return static_cast<Transfer*>(self)->config.stop.stop_requested() ? 1 : 0;
  }
};

HttpClient::HttpClient(HttpConfig config) : config_(std::move(config)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  curl_ = curl_easy_init();
  GRAFT_CHECK(curl_ != nullptr, "curl_easy_init");
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(curl_);
}

void HttpClient::pause(double seconds) const {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, config_.stop, std::chrono::duration<double>(seconds), [] { return false; });
  if (config_.stop.stop_requested()) throw Cancelled();
}

std::string certificate_file() {
  for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* path = std::getenv(variable);
    if (path == nullptr || *path == '\0') continue;
    if (::access(path, R_OK) != 0) fail(variable, ": ", path, ": cannot be read");
    return path;
  }
  for (const char* path :
       {"/etc/ssl/certs/ca-certificates.crt",  // Debian, Arch, Gentoo
        "/etc/pki/tls/certs/ca-bundle.crt",    // Red Hat
        "/etc/ssl/ca-bundle.pem",              // SUSE
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}) {  // Alpine
    if (::access(path, R_OK) == 0) return path;
  }
  return {};
}

std::uint64_t total_size(const HttpResponse& response) {
  if (const auto range = parse_content_range(response.header("content-range"))) return range->total;
  std::uint64_t size = 0;
  const bool is_told =
      response.status == 200 && read_number(response.header("content-length"), size);
  return is_told ? size : 0;
}

HttpResponse HttpClient::get(const HttpRequest& request) {
  const bool has_own_token = std::ranges::any_of(request.headers, [](const std::string& header) {
    return lower_case(header).starts_with("authorization:");
  });
  if (has_own_token || !config_.gets_tokens) return get_with_retries(request);
  HttpRequest with_token = request;
  const auto send = [&] {
    with_token.headers = request.headers;
    if (!token_.empty() && token_origin_ == origin_of(request.url))
      with_token.headers.push_back("Authorization: Bearer " + token_);
    return get_with_retries(with_token);
  };
  HttpResponse response = send();
  if (response.status == 401 && get_token(request.url, response)) response = send();
  return response;
}

// False: the server that refused `url` names no URL for tokens, or that gives none.
bool HttpClient::get_token(const std::string& url, const HttpResponse& refusal) {
  const auto from = token_url(refusal.header("www-authenticate"));
  if (!from || origin_of(refusal.url) != origin_of(url)) return false;
  if (url.starts_with("https://") && !from->starts_with("https://")) return false;
  const HttpResponse answer = get_with_retries({.url = *from, .max_body = kMaxErrorBody});
  if (answer.status != 200) return false;
  token_ = parse_token(answer.body, *from);
  token_origin_ = origin_of(url);
  return true;
}

HttpResponse HttpClient::get_with_retries(const HttpRequest& request) {
  if (config_.is_offline)
    fail(request.url, ": not requested, HF_HUB_OFFLINE is set; unset it to download");
  Transfer transfer = {.request = request, .config = config_, .curl = curl_};
  for (double delay = config_.first_delay_seconds; !attempt(transfer);
       delay = std::min(delay * 2, config_.max_delay_seconds)) {
    std::uint64_t seconds = 0;
    const bool is_told = read_number(transfer.response.header("retry-after"), seconds);
    if (is_told && static_cast<double>(seconds) > config_.max_retry_after_seconds) {
      fail(request.url, ": status ", transfer.response.status, ", the server asks to wait ",
           seconds, " s; try again later");
    }
    pause(is_told ? std::max(static_cast<double>(seconds), delay) : delay);
    if (!request.range) {
      transfer.num_received = 0;
      if (request.restart) request.restart();
    }
  }
  return std::move(transfer.response);
}

namespace {

void set_protocols(void* curl, bool is_https) {
#if LIBCURL_VERSION_NUM >= 0x075500
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https");
#else
  set(curl, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  set(curl, CURLOPT_REDIR_PROTOCOLS,
      is_https ? static_cast<long>(CURLPROTO_HTTPS)
               : static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

void set_limits(void* curl, const HttpConfig& config) {
  set(curl, CURLOPT_FOLLOWLOCATION, config.max_redirects > 0 ? 1L : 0L);
  set(curl, CURLOPT_MAXREDIRS, static_cast<long>(config.max_redirects));
  set(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(config.total_seconds * 1000));
  if (!config.has_proxy) set(curl, CURLOPT_PROXY, "");
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(config.connect_seconds * 1000));
  set(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(curl, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(config.stall_seconds)));
  set(curl, CURLOPT_USERAGENT, "graft/" GRAFT_VERSION);
  set(curl, CURLOPT_NOPROGRESS, 0L);
}

}  // namespace

bool HttpClient::attempt(Transfer& transfer) {
  const HttpRequest& request = transfer.request;
  ++transfer.attempt;
  transfer.response = {};
  transfer.is_checked = false;
  curl_easy_reset(curl_);
  set_limits(curl_, config_);
  set_protocols(curl_, request.url.starts_with("https://"));
  if (const std::string file = certificate_file(); !file.empty())
    set(curl_, CURLOPT_CAINFO, file.c_str());
  set(curl_, CURLOPT_URL, request.url.c_str());
  set(curl_, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(curl_, CURLOPT_WRITEDATA, &transfer);
  set(curl_, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(curl_, CURLOPT_HEADERDATA, &transfer);
  set(curl_, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(curl_, CURLOPT_XFERINFODATA, &transfer);
  if (config_.allows_address) {
    set(curl_, CURLOPT_OPENSOCKETFUNCTION, &Transfer::on_socket);
    set(curl_, CURLOPT_OPENSOCKETDATA, &transfer);
  }
  if (request.range) {
    set(curl_, CURLOPT_RANGE,
        fmt::format("{}-{}", request.range->begin + transfer.num_received, request.range->end - 1)
            .c_str());
  }
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers)
    list = curl_slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                            curl_slist_free_all);
  set(curl_, CURLOPT_HTTPHEADER, headers.get());
  const CURLcode code = curl_easy_perform(curl_);
  if (transfer.exception) std::rethrow_exception(transfer.exception);
  if (config_.stop.stop_requested()) throw Cancelled();
  if (!transfer.problem.empty()) fail(request.url, ": the server sent ", transfer.problem);
  char* url = nullptr;
  curl_easy_getinfo(curl_, CURLINFO_EFFECTIVE_URL, &url);
  transfer.response.url = url == nullptr ? request.url : url;
  if (curl_easy_getinfo(curl_, CURLINFO_REDIRECT_URL, &url) == CURLE_OK && url != nullptr)
    transfer.response.redirect = url;
  if (transfer.has_ignored_range) return true;
  const bool is_last = transfer.attempt >= config_.max_attempts;
  if (code != CURLE_OK) {
    if (!transfer.refused_address.empty()) {
      fail(request.url, ": its address ", transfer.refused_address, " is not allowed");
    }
    if (is_transient_error(code) && !is_last) return false;
    const bool is_unreachable = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT;
    fail(request.url, ": ", curl_easy_strerror(code), " (", transfer.attempt,
         transfer.attempt == 1 ? " attempt)" : " attempts)",
         is_unreachable ? "; a proxy (https_proxy) or a mirror (HF_ENDPOINT) may reach it" : "");
  }
  transfer.check_head();  // of a response without a body
  return is_last || !is_transient(transfer.response.status);
}

void check_status(const HttpResponse& response, const std::string& subject) {
  switch (response.status) {
    case 200:
    case 206:
      return;
    case 401:
    case 403:
      fail(subject, ": access denied (status ", response.status,
           "): it is private or gated, or does not exist; accept its terms on the hub and set a "
           "token (HF_TOKEN, MODELSCOPE_API_TOKEN)");
    case 404:
      fail(subject, ": not found (status 404)");
    case 429:
      fail(subject, ": too many requests (status 429); try again later");
    default:
      fail(subject, ": the server answered with status ", response.status);
  }
}

std::string encode_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    if (is_plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace graft::hub
