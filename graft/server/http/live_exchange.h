// The exchange between a handler, which writes from any thread, and the connection, which takes
// what was written on the server's thread. Bounded: a client that does not read loses its answer.

#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "graft/server/http/exchange.h"

namespace graft::server::http {

// What the access log says of an exchange when it is over.
struct Record {
  const Request* request = nullptr;
  int status = 0;  // 499: the client went away before the answer ended
  std::size_t bytes = 0;
  double seconds = 0;
  Json notes = Json::object();
};
using Log = std::function<void(const Record& record)>;

inline constexpr int kClientGone = 499;

class LiveExchange final : public Exchange {
 public:
  using Post = std::function<void(Task task)>;

  // `wake` is called from any thread when there is something to take, or when the exchange is gone.
  LiveExchange(Request request, Post post, Task wake, std::size_t max_buffered_bytes);

  const Request& request() const override { return request_; }
  std::string take_body() override { return std::move(request_.body); }
  void respond(Response response) override;
  void start_stream(StreamHead head) override;
  void write(std::string_view bytes) override;
  void end() override;
  void on_gone(Task task) override;
  void post(Task task) override { post_(std::move(task)); }
  void note(const std::string& name, Json value) override;

  // For the connection.
  struct Output {
    std::optional<Response> response = {};
    std::optional<StreamHead> head = {};
    std::string bytes = {};
    bool is_end = false;

    bool empty() const { return !response && !head && bytes.empty() && !is_end; }
  };
  Output take();
  void set_gone();
  bool is_gone() const;
  Record record(std::size_t bytes) const;

 private:
  Request request_;
  const Post post_;
  const Task wake_;
  const std::size_t max_buffered_bytes_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  mutable std::mutex mutex_;
  Output output_;
  int status_ = 0;
  bool has_ended_ = false;
  bool is_gone_ = false;
  Task on_gone_;
  Json notes_ = Json::object();
};

}  // namespace graft::server::http
