// Runs `graft serve` as a child process and sends it HTTP over plain sockets.

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

// Serves the bundled model on a free port unless `arguments` name another model.
class ServerProcess {
 public:
  // `error_file`: receives standard error; empty: that of this process.
  // `environment`: "NAME=VALUE" before the variables of this process.
  explicit ServerProcess(const std::vector<std::string>& arguments = {},
                         const std::string& error_file = {},
                         const std::vector<std::string>& environment = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  std::uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits until the process exits; returns the exit code, or 128 + signal.
  int wait();
  // Closes the reading end of the server's standard output, which is not read after the first line.
  void close_output();
  // The first line of standard output: the address.
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
  int status = 0;  // 0: the connection closed without a response
  std::map<std::string, std::string> headers = {};
  std::string body = {};

  Json json() const { return Json::parse(body, nullptr, false); }
};

// One connection. Reads time out after a minute.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_bytes = 0);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  bool is_connected() const { return is_connected_; }
  void send(const std::string& bytes) const;
  void post(const std::string& path, const Json& body) const;
  // Resets the connection when nothing arrives for this time from now: the server aborts the
  // request.
  void set_read_timeout(std::chrono::milliseconds time);
  // Waits until data or the end of the connection is available; false on timeout.
  bool has_input(int milliseconds) const;
  // Reads up to and including `end`, or to the end of the connection.
  std::string read_until(const std::string& end);
  // A complete response; chunks are joined.
  Reply read_reply(bool has_body = true);
  void close();
  // Half-close (SHUT_WR): responses can still be read.
  void shutdown_send() const;
  // Closes with a TCP reset; data in flight is lost.
  void reset();

 private:
  bool fill();  // false at the end of the connection
  std::string read_bytes(std::size_t count);
  void wait_for_input();

  int socket_ = -1;
  std::optional<std::chrono::steady_clock::time_point> read_deadline_;
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

inline constexpr const char* kChat = "/v1/chat/completions";
// The body of a chat request with temperature 0; `more` adds or replaces keys.
Json chat_body(const Json& more = Json::object());
// One whose stream runs until the context is full.
Json endless_body();

// Polls the condition for up to a minute; false on timeout.
bool eventually(const std::function<bool()>& holds);
// A metric of the bundled model, -1 when it is missing. `label`: `,finished_reason="…"`.
double metric(const ServerProcess& server, const std::string& name, const std::string& label = {});

// The JSON objects of an event stream; the final [DONE] is a string.
std::vector<Json> events(const std::string& stream);
// The JSON objects of newline-delimited JSON.
std::vector<Json> lines(const std::string& stream);

}  // namespace graft::tests
