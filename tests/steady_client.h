// A client that asks the same question over and over, on a thread of its own, and keeps what was
// not as it should be. Whatever others do to a server, this one must not notice.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace graft::tests {

class Client;

class SteadyClient {
 public:
  explicit SteadyClient(std::uint16_t port);
  SteadyClient(const SteadyClient&) = delete;
  SteadyClient& operator=(const SteadyClient&) = delete;
  ~SteadyClient();

  int num_answers() const { return num_answers_; }
  // Ends it; what went wrong.
  std::vector<std::string> stop();

 private:
  void run();
  void ask(Client& client, bool is_stream);

  const std::uint16_t port_;
  std::atomic<int> num_answers_ = 0;
  std::atomic<bool> is_stopping_ = false;
  std::vector<std::string> problems_;  // the thread's, until it has ended
  std::thread thread_;
};

}  // namespace graft::tests
