// The exchange of a real connection: handlers write from any thread, the connection takes the
// output on the I/O thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "graft/server/http/exchange.h"

namespace graft::server::http {

// One entry of the access log, made when the exchange has ended.
struct LogRecord {
  const Request* request = nullptr;
  int status = 0;  // kClientClosedRequest: the client disconnected before the end
  std::size_t bytes = 0;
  double seconds = 0;
  Json log_fields = Json::object();
};
using Log = std::function<void(const LogRecord& record)>;

inline constexpr int kClientClosedRequest = 499;  // nginx's code; never sent to a client

class LiveExchange final : public Exchange {
 public:
  // `wake` is called, from any thread, when there is output to take or the client is disconnected.
  // when_writable() waits while more than `max_unsent_bytes` are buffered.
  LiveExchange(Request request, Task wake, std::size_t max_unsent_bytes);

  const Request& request() const override { return request_; }
  std::string take_body() override { return std::move(request_.body); }
  void respond(Response response) override;
  void start_stream(StreamHead head) override;
  void write(std::string_view bytes) override;
  void end() override;
  bool when_writable(Task task) override;
  void on_disconnect(Task task) override;
  void log_field(const std::string& name, Json value) override;

  // Output that the connection has not taken yet.
  struct Output {
    std::optional<Response> response = {};
    std::optional<StreamHead> head = {};
    std::string bytes = {};
    bool is_end = false;

    bool empty() const { return !response && !head && bytes.empty() && !is_end; }
  };
  Output take_output();
  void set_disconnected();
  // Destroys the callbacks without running them; they may own the exchange.
  void drop_callbacks();
  bool is_disconnected() const;
  LogRecord record(std::size_t bytes) const;

 private:
  Request request_;
  const Task wake_;
  const std::size_t max_unsent_bytes_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  mutable std::mutex mutex_;
  Output output_;
  int status_ = 0;
  bool has_ended_ = false;
  bool is_disconnected_ = false;
  Task on_disconnect_;
  Task on_writable_;
  Json log_fields_ = Json::object();
};

}  // namespace graft::server::http
