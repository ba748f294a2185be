// A well-behaved client that repeats the same chat request on its own thread over keep-alive
// connections and records wrong responses. Runs beside faulty clients, which must not affect it.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace graft::tests {

class Client;

class KeepAliveClient {
 public:
  explicit KeepAliveClient(std::uint16_t port);
  KeepAliveClient(const KeepAliveClient&) = delete;
  KeepAliveClient& operator=(const KeepAliveClient&) = delete;
  ~KeepAliveClient();

  int num_responses() const { return num_responses_; }  // correct ones
  // Stops the thread; returns a description of every wrong response.
  std::vector<std::string> stop();

 private:
  void run();
  void ask(Client& client, bool is_stream);

  const std::uint16_t port_;
  std::atomic<int> num_responses_ = 0;
  std::atomic<bool> is_stopping_ = false;
  std::vector<std::string> problems_;  // used only by the thread until it is joined
  std::thread thread_;
};

}  // namespace graft::tests
