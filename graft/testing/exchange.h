// For tests: an exchange without a connection that records the response.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graft/server/http/exchange.h"

namespace graft::server {

class TestExchange final : public http::Exchange {
 public:
  explicit TestExchange(http::Request request) : request_(std::move(request)) {}

  const http::Request& request() const override { return request_; }
  std::string take_body() override { return std::move(request_.body); }
  void respond(http::Response given) override { response = std::move(given); }
  void start_stream(http::StreamHead given) override { head = std::move(given); }
  void write(std::string_view bytes) override { written += bytes; }
  void end() override { has_ended = true; }
  bool when_writable(Task /*task*/) override { return false; }
  void on_disconnect(Task task) override { disconnect_task = std::move(task); }
  void log_field(const std::string& name, Json value) override {
    log_fields[name] = std::move(value);
  }

  std::optional<http::Response> response;
  std::optional<http::StreamHead> head;
  std::string written;
  bool has_ended = false;
  Task disconnect_task;
  Json log_fields = Json::object();

 private:
  http::Request request_;
};

inline std::shared_ptr<TestExchange> test_exchange(const std::string& method,
                                                   const std::string& path) {
  return std::make_shared<TestExchange>(http::Request{.method = method, .path = path});
}

}  // namespace graft::server
