#include "tests/server/mutated_load.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "graft/base/text/str.h"
#include "graft/testing/shared_data.h"

#include "tests/server/mutation.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

using Seconds = std::chrono::duration<double>;

// Clients reset connections whose response takes longer; the server must then end them within
// kMaxTime.
constexpr std::chrono::milliseconds kReadTimeout(kUnderSanitizers ? 500 : 100);
constexpr Seconds kMaxTime(30);
constexpr int kNumThreads = 24;

bool is_complete_json(const Reply& reply) {
  const auto type = reply.headers.find("content-type");
  const auto length = reply.headers.find("content-length");
  return type != reply.headers.end() && type->second == "application/json" &&
         length != reply.headers.end() && std::to_string(reply.body.size()) == length->second;
}

class Sender {
 public:
  Sender(std::uint16_t port, const std::string& path, const std::string& api_key)
      : port_(port), path_(path), api_key_(api_key) {}

  // Every third request opens a new connection; the others reuse the last one if it is still open.
  void run(int first, int end) {
    std::unique_ptr<Client> client;
    for (int number = first; number < end; number += kNumThreads) {
      const auto start = std::chrono::steady_clock::now();
      if (!client || number % 3 == 0) client = std::make_unique<Client>(port_);
      client->send(text_of(number));
      client->set_read_timeout(kReadTimeout);
      const Reply reply = client->read_reply();
      add(number, reply, std::chrono::steady_clock::now() - start);
      const bool is_kept = reply.status != 0 && !reply.headers.contains("connection") &&
                           reply.headers.contains("content-length");
      if (!is_kept) client.reset();
    }
  }

  const MutatedLoad& load() const { return load_; }

 private:
  std::string text_of(int number) const {
    return mutated_request(static_cast<std::uint64_t>(number), path_, api_key_);
  }

  void add(int number, const Reply& reply, Seconds time) {
    const std::lock_guard lock(mutex_);
    ++load_.statuses[reply.status];
    // Success and client errors; 0: closed without a response.
    static const std::set<int> kExpected = {0,   100, 200, 204, 400, 401, 403,
                                            404, 405, 408, 413, 429, 431, 501};
    if (!kExpected.contains(reply.status)) report(number, str(reply.status, ": ", reply.body));
    if (time > kMaxTime) report(number, str("took ", time.count(), " s"));
    if (is_complete_json(reply) && reply.json().is_discarded())
      report(number, "invalid JSON: " + reply.body);
  }

  void report(int number, const std::string& what) {
    if (load_.problems.size() < 20)
      load_.problems.push_back(
          str("request ", number, " of ", path_, ": ", text_of(number), "\n", what));
  }

  const std::uint16_t port_;
  const std::string path_;
  const std::string api_key_;
  std::mutex mutex_;
  MutatedLoad load_;
};

}  // namespace

int MutatedLoad::count(int status) const {
  const auto found = statuses.find(status);
  return found == statuses.end() ? 0 : found->second;
}

std::string MutatedLoad::text() const {
  std::string out;
  for (const auto& [status, count] : statuses)
    out += str(out.empty() ? "" : ", ", status, ": ", count);
  return out;
}

MutatedLoad send_mutated(std::uint16_t port,
                         const std::string& path,
                         int count,
                         const std::string& api_key) {
  Sender sender(port, path, api_key);
  std::vector<std::thread> threads;
  for (int i = 0; i < kNumThreads; ++i)
    threads.emplace_back([&, i] { sender.run(i, count); });
  for (std::thread& thread : threads)
    thread.join();
  return sender.load();
}

}  // namespace graft::tests
