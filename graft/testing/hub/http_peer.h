// An HTTP server for tests of clients, on a free port of the loopback interface: one thread per
// connection, ranges, and faults on request.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace graft::hub::testing {

struct PeerRequest {
  std::string method;
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // lower-case names
};

struct PeerResponse {
  int status = 200;
  std::vector<std::string> headers = {};  // "Name: value"
  std::string body = {};
  bool has_ranges = true;                     // answers a Range header with 206
  bool has_length = true;                     // false: the end of the connection ends the body
  std::size_t break_after = ~std::size_t{0};  // closes the connection after this much of the body
  int pause_ms = 0;                           // before each 64 KiB of the body
};

class HttpPeer {
 public:
  using Handler = std::function<PeerResponse(const PeerRequest& request)>;

  // `handler` is called by several threads.
  explicit HttpPeer(Handler handler);
  HttpPeer(const HttpPeer&) = delete;
  HttpPeer& operator=(const HttpPeer&) = delete;
  ~HttpPeer();

  std::string url() const;  // "http://127.0.0.1:PORT"
  std::vector<PeerRequest> requests() const;

 private:
  void accept_connections();
  void serve(int socket);

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<PeerRequest> requests_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::atomic<bool> is_stopping_ = false;
  std::thread acceptor_;
};

}  // namespace graft::hub::testing
