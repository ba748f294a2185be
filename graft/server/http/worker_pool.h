// A fixed number of threads that run tasks: the clients in turn, the tasks of a client in order.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace graft::server::http {

enum class WorkerPriority : std::uint8_t {
  Normal,
  // A lower one, and a thread rests after a task as long as the task took, but not over a second:
  // other threads get at least half of its core.
  Background,
};

class WorkerPool {
 public:
  using Task = std::function<void()>;

  explicit WorkerPool(std::size_t num_threads, WorkerPriority priority = WorkerPriority::Normal);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  // Tasks must not throw. After stop() tasks are dropped.
  void post(Task task, std::uint64_t client = 0);
  // Waits for running tasks; queued tasks are dropped.
  void stop();

 private:
  void run();
  Task take_next();
  void rest_after(double seconds);

  const WorkerPriority priority_;
  std::mutex mutex_;
  std::condition_variable wake_;                               // a task, or the end
  std::condition_variable stopped_;                            // for threads that rest
  std::unordered_map<std::uint64_t, std::deque<Task>> tasks_;  // by client; none is empty
  std::deque<std::uint64_t> turns_;                            // the clients with tasks
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace graft::server::http
