#include "graft/server/http/live_exchange.h"

#include <utility>

#include "graft/base/check.h"

namespace graft::server::http {

LiveExchange::LiveExchange(Request request, Post post, Task wake, std::size_t max_buffered_bytes)
    : request_(std::move(request)),
      post_(std::move(post)),
      wake_(std::move(wake)),
      max_buffered_bytes_(max_buffered_bytes) {}

void LiveExchange::respond(Response response) {
  {
    const std::lock_guard lock(mutex_);
    GRAFT_CHECK(status_ == 0, "second response to ", request_.path);
    status_ = response.status;
    has_ended_ = true;
    on_disconnect_ = nullptr;
    output_.response = std::move(response);
  }
  wake_();
}

void LiveExchange::start_stream(StreamHead head) {
  {
    const std::lock_guard lock(mutex_);
    GRAFT_CHECK(status_ == 0, "second response to ", request_.path);
    status_ = 200;
    output_.head = std::move(head);
  }
  wake_();
}

void LiveExchange::write(std::string_view bytes) {
  if (bytes.empty()) return;
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_disconnected_ || has_ended_) return;
    output_.bytes += bytes;
    is_full = output_.bytes.size() > max_buffered_bytes_;
  }
  if (is_full) {
    log_field("error", "the client reads too slowly: output buffer full");
    set_disconnected();
  }
  wake_();
}

void LiveExchange::end() {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    has_ended_ = true;
    on_disconnect_ = nullptr;
    output_.is_end = true;
  }
  wake_();
}

void LiveExchange::on_disconnect(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    if (!is_disconnected_) {
      on_disconnect_ = std::move(task);
      return;
    }
  }
  task();
}

void LiveExchange::log_field(const std::string& name, Json value) {
  const std::lock_guard lock(mutex_);
  log_fields_[name] = std::move(value);
}

LiveExchange::Output LiveExchange::take_output() {
  const std::lock_guard lock(mutex_);
  return std::exchange(output_, {});
}

void LiveExchange::set_disconnected() {
  Task task;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_disconnected_, true)) return;
    task = std::exchange(on_disconnect_, nullptr);
    output_ = {};
  }
  if (task) task();
}

bool LiveExchange::is_disconnected() const {
  const std::lock_guard lock(mutex_);
  return is_disconnected_;
}

LogRecord LiveExchange::record(std::size_t bytes) const {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start_;
  const std::lock_guard lock(mutex_);
  return {.request = &request_,
          .status = is_disconnected_ ? kClientClosedRequest : status_,
          .bytes = bytes,
          .seconds = time.count(),
          .log_fields = log_fields_};
}

}  // namespace graft::server::http
