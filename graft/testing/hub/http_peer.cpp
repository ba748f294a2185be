#include "graft/testing/hub/http_peer.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "graft/base/check.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/str.h"

namespace graft::hub::testing {
namespace {

constexpr std::size_t kPieceBytes = 64U << 10U;

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// nullopt: the client has closed the connection.
std::optional<PeerRequest> read_request(int socket) {
  std::string head;
  for (char c = 0; !head.ends_with("\r\n\r\n"); head += c) {
    if (::recv(socket, &c, 1, 0) != 1) return std::nullopt;
  }
  std::istringstream lines(head);
  PeerRequest request;
  lines >> request.method >> request.target;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    request.headers[lower_case(line.substr(0, colon))] = trimmed(line.substr(colon + 1), " \r");
  }
  return request;
}

// Reduces the response to the requested bytes.
void apply_range(const PeerRequest& request, PeerResponse& response) {
  const auto range = request.headers.find("range");
  if (response.status != 200 || !response.has_ranges || range == request.headers.end()) return;
  const std::string text = range->second.substr(std::string_view("bytes=").size());
  const std::size_t dash = text.find('-');
  const std::size_t total = response.body.size();
  const std::size_t begin = std::stoull(text.substr(0, dash));
  const std::size_t last =
      dash + 1 < text.size() ? std::min<std::size_t>(std::stoull(text.substr(dash + 1)), total - 1)
                             : total - 1;
  if (begin >= total) {
    response = {.status = 416};
    return;
  }
  response.status = 206;
  response.headers.push_back(str("Content-Range: bytes ", begin, "-", last, "/", total));
  response.body = response.body.substr(begin, last - begin + 1);
}

// False: the connection ends.
bool send_response(int socket, const PeerResponse& response, bool has_body) {
  std::string head = str("HTTP/1.1 ", response.status, " Status\r\n");
  head += response.has_length ? str("Content-Length: ", response.body.size(), "\r\n")
                              : "Connection: close\r\n";
  for (const std::string& header : response.headers)
    head += header + "\r\n";
  if (!send_all(socket, head + "\r\n")) return false;
  if (!has_body) return true;
  std::string_view rest = std::string_view(response.body).substr(0, response.break_after);
  while (!rest.empty()) {
    if (response.pause_ms > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(response.pause_ms));
    if (!send_all(socket, rest.substr(0, kPieceBytes))) return false;
    rest.remove_prefix(std::min(kPieceBytes, rest.size()));
  }
  return response.has_length && response.break_after >= response.body.size();
}

}  // namespace

HttpPeer::HttpPeer(Handler handler) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  GRAFT_CHECK(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0, "bind");
  GRAFT_CHECK(::listen(listener_, 64) == 0, "listen");
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_connections(); });
}

HttpPeer::~HttpPeer() {
  is_stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : sockets_)
      ::shutdown(socket, SHUT_RDWR);
  }
  for (std::thread& thread : threads_)
    thread.join();
  for (const int socket : sockets_)
    ::close(socket);
  ::close(listener_);
}

std::string HttpPeer::url() const {
  return str("http://127.0.0.1:", port_);
}

std::vector<PeerRequest> HttpPeer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpPeer::accept_connections() {
  while (!is_stopping_) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { serve(socket); });
  }
}

void HttpPeer::serve(int socket) {
  while (const auto request = read_request(socket)) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    PeerResponse response = handler_(*request);
    apply_range(*request, response);
    if (!send_response(socket, response, request->method != "HEAD")) break;
  }
  ::shutdown(socket, SHUT_RDWR);  // closed by the destructor: its number must not be reused
}

}  // namespace graft::hub::testing
