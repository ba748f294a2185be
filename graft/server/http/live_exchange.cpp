#include "graft/server/http/live_exchange.h"

#include <utility>

#include "graft/base/check.h"

namespace graft::server::http {

LiveExchange::LiveExchange(Request request, Task wake, std::size_t max_unsent_bytes)
    : request_(std::move(request)), wake_(std::move(wake)), max_unsent_bytes_(max_unsent_bytes) {}

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
  {
    const std::lock_guard lock(mutex_);
    if (is_disconnected_ || has_ended_) return;
    output_.bytes += bytes;
  }
  wake_();
}

bool LiveExchange::when_writable(Task task) {
  const std::lock_guard lock(mutex_);
  if (is_disconnected_ || output_.bytes.size() <= max_unsent_bytes_) return false;
  on_writable_ = std::move(task);
  return true;
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
  Task task;
  Output output;
  {
    const std::lock_guard lock(mutex_);
    output = std::exchange(output_, {});
    task = std::exchange(on_writable_, nullptr);
  }
  if (task) task();
  return output;
}

void LiveExchange::set_disconnected() {
  Task disconnect_task;
  Task writable_task;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_disconnected_, true)) return;
    disconnect_task = std::exchange(on_disconnect_, nullptr);
    writable_task = std::exchange(on_writable_, nullptr);
    output_ = {};
  }
  if (disconnect_task) disconnect_task();
  if (writable_task) writable_task();
}

void LiveExchange::drop_callbacks() {
  Task disconnect_task;
  Task writable_task;
  const std::lock_guard lock(mutex_);
  disconnect_task.swap(on_disconnect_);
  writable_task.swap(on_writable_);
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
