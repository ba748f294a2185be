// Runs `graft serve` as a user would, and speaks HTTP to it over plain sockets.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "graft/base/text/json.h"

namespace graft::tests {

// Serves the bundled model at a free port, unless the arguments say otherwise.
class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& arguments = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  std::uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for its end; the exit code.
  int wait();
  // The address line and whatever else it wrote to standard output so far.
  const std::string& first_line() const { return first_line_; }

 private:
  pid_t pid_ = 0;
  int out_ = -1;
  std::uint16_t port_ = 0;
  std::string first_line_;
};

// The path of the bundled model.
std::string bundled_model();

struct Reply {
  int status = 0;  // 0: the connection ended without one
  std::map<std::string, std::string> headers = {};
  std::string body = {};

  Json json() const { return Json::parse(body, nullptr, false); }
};

// One connection. Reading waits for at most a minute.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_bytes = 0);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  bool is_connected() const { return is_connected_; }
  void send(const std::string& bytes) const;
  void post(const std::string& path, const Json& body) const;
  // Reading longer than this from now on says that nothing more will be sent: a server that is
  // still at work takes that for a client that has left.
  void set_patience(std::chrono::milliseconds time);
  // Whether something to read, or the end, comes within that time.
  bool has_input(int milliseconds) const;
  // Everything up to and with `end`, or up to the end of the connection.
  std::string read_until(const std::string& end);
  // Whole, chunks put together.
  Reply read_reply(bool has_body = true);
  void close();
  // Says that nothing more will be sent; the answer can still be read.
  void end_sending() const;
  // Goes without a word: what is on its way is lost on both sides.
  void reset();

 private:
  bool fill();  // false at the end
  std::string take(std::size_t count);
  void wait_patiently();

  int socket_ = -1;
  std::optional<std::chrono::steady_clock::time_point> patience_;
  bool is_connected_ = false;
  std::string buffer_;
};

using Headers = std::map<std::string, std::string>;
std::string request_text(const std::string& method,
                         const std::string& path,
                         const std::string& body = {},
                         const Headers& headers = {});
Reply ask(const ServerProcess& server,
          const std::string& method,
          const std::string& path,
          const std::string& body = {},
          const Headers& headers = {});
Reply get(const ServerProcess& server, const std::string& path);
Reply post(const ServerProcess& server,
           const std::string& path,
           const Json& body,
           const Headers& headers = {});

// Whether it holds within a minute.
bool eventually(const std::function<bool()>& holds);
// A line of /metrics of the bundled model, -1 when it is not there. `label`:
// `,finished_reason="…"`.
double metric(const ServerProcess& server, const std::string& name, const std::string& label = {});

// The objects of an event stream; the last is [DONE] as a string.
std::vector<Json> events(const std::string& stream);
std::vector<Json> lines(const std::string& stream);

}  // namespace graft::tests
