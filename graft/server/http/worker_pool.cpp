#include "graft/server/http/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/resource.h>

namespace graft::server::http {
namespace {

using Clock = std::chrono::steady_clock;

// Of the calling thread: Linux has a priority per thread. Ten steps are a tenth of the weight; with
// the lowest priority a thread would wait for minutes on a machine with other work.
void lower_priority() {
  constexpr int kSteps = 10;
  constexpr int kMaxNice = 19;
  ::setpriority(PRIO_PROCESS, 0, std::min(kMaxNice, ::getpriority(PRIO_PROCESS, 0) + kSteps));
}

}  // namespace

WorkerPool::WorkerPool(std::size_t num_threads, WorkerPriority priority) : priority_(priority) {
  for (std::size_t i = 0; i < num_threads; ++i)
    threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
  stop();
}

void WorkerPool::post(Task task, std::uint64_t client) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    std::deque<Task>& tasks = tasks_[client];
    if (tasks.empty()) turns_.push_back(client);
    tasks.push_back(std::move(task));
  }
  wake_.notify_one();
}

void WorkerPool::stop() {
  decltype(tasks_) dropped;  // destroyed without holding the lock
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    turns_.clear();
  }
  wake_.notify_all();
  stopped_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::run() {
  if (priority_ == WorkerPriority::Background) lower_priority();
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !turns_.empty(); });
      if (stopping_) return;
      task = take_next();
    }
    const Clock::time_point start = Clock::now();
    task();
    task = nullptr;
    if (priority_ == WorkerPriority::Background)
      rest_after(std::chrono::duration<double>(Clock::now() - start).count());
  }
}

void WorkerPool::rest_after(double seconds) {
  constexpr double kMaxSeconds = 1;
  std::unique_lock lock(mutex_);
  stopped_.wait_for(lock, std::chrono::duration<double>(std::min(seconds, kMaxSeconds)),
                    [this] { return stopping_; });
}

WorkerPool::Task WorkerPool::take_next() {
  const std::uint64_t client = turns_.front();
  turns_.pop_front();
  const auto it = tasks_.find(client);
  Task task = std::move(it->second.front());
  it->second.pop_front();
  if (it->second.empty()) {
    tasks_.erase(it);
  } else {
    turns_.push_back(client);
  }
  return task;
}

}  // namespace graft::server::http
