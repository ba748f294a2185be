// A fixed set of threads that share out the items of one loop at a time.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace graft {

class ThreadPool {
 public:
  // `num_threads` counts the calling thread; 0 means one per processor this process may run on.
  explicit ThreadPool(std::size_t num_threads = 0);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  std::size_t num_threads() const;

  // Calls body(i) once for each i in [0, num_items), in no fixed order, and returns when all are
  // done. The first exception a body throws is rethrown here after the others have stopped.
  void parallel_for(std::size_t num_items, const std::function<void(std::size_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft
