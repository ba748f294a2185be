// A fixed set of threads that share out the items of one loop at a time. Loops of a forward pass
// follow each other within microseconds, so threads that run out of work look for the next loop for
// a moment before they sleep; nothing is allocated per loop. Every thread has a part of each loop,
// always the same one, those of a memory node side by side: it reads on and on, and finds beside it
// what it touched first. Those who are done help the others.

#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "graft/base/system/processors.h"

namespace graft {

class ThreadPool {
 public:
  // `num_threads` counts the calling thread; 0 means one per core this process may run on. They are
  // spread over the memory nodes. With `processors` (0 means one per processor then) the threads,
  // and those that call parallel_for, are pinned to them in turn.
  explicit ThreadPool(std::size_t num_threads = 0,
                      const std::vector<int>& processors = {},
                      const std::vector<Processor>& machine = usable_processors());
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  std::size_t num_threads() const;
  std::size_t num_nodes() const;  // memory nodes that have threads

  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  // The part of a loop that is the node's, in proportion to its threads. Together, in the order of
  // the nodes, the shares are the loop.
  Range share(std::size_t node, std::size_t num_items) const;

  // While one of these lives, the threads look for the next loop without sleeping: another device
  // works between the loops, for longer than they would wait.
  class SpinScope {
   public:
    explicit SpinScope(ThreadPool& pool);
    SpinScope(const SpinScope&) = delete;
    SpinScope& operator=(const SpinScope&) = delete;
    ~SpinScope();

   private:
    ThreadPool& pool_;
  };

  // Calls body(item), or body(worker, item), once for each item in [0, num_items), in no fixed
  // order, and returns when all are done. Of calls at the same time each has another worker, below
  // min(num_threads, num_items). The first exception a body throws is rethrown here after the
  // others have stopped.
  // Threads take the items of their own part, in order, then of others on their node, then of all.
  template <class Body>
  void parallel_for(std::size_t num_items, const Body& body) {
    run(num_items, true, &body, [](const void* any, std::size_t worker, std::size_t item) {
      if constexpr (std::is_invocable_v<const Body&, std::size_t, std::size_t>) {
        (*static_cast<const Body*>(any))(worker, item);
      } else {
        (*static_cast<const Body*>(any))(item);
      }
    });
  }

  // Calls body(item) in the same way, but nobody helps another node: for what touches memory first,
  // which then lies where it will be read.
  template <class Body>
  void parallel_for_local(std::size_t num_items, const Body& body) {
    run(num_items, false, &body, [](const void* any, std::size_t /*worker*/, std::size_t item) {
      (*static_cast<const Body*>(any))(item);
    });
  }

 private:
  using Call = void (*)(const void* body, std::size_t worker, std::size_t item);
  void run(std::size_t num_items, bool may_help, const void* body, Call call);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft
