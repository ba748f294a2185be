// A few threads that run tasks in order of their arrival.

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace graft::server::http {

class Workers {
 public:
  using Task = std::function<void()>;

  explicit Workers(std::size_t num_threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  // Tasks must not throw. After stop() they are dropped.
  void post(Task task);
  // Waits for the tasks that run; those that wait are dropped.
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
