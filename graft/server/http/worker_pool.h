// A fixed number of threads that run tasks in FIFO order.

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace graft::server::http {

class WorkerPool {
 public:
  using Task = std::function<void()>;

  explicit WorkerPool(std::size_t num_threads);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  // Tasks must not throw. After stop() tasks are dropped.
  void post(Task task);
  // Waits for running tasks; queued tasks are dropped.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace graft::server::http
