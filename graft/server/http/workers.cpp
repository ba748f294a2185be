#include "graft/server/http/workers.h"

#include <utility>

namespace graft::server::http {

Workers::Workers(std::size_t num_threads) {
  for (std::size_t i = 0; i < num_threads; ++i)
    threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  stop();
}

void Workers::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Workers::stop() {
  std::deque<Task> dropped;  // what they hold goes without the lock
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::run() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace graft::server::http
