// A fixed set of threads that run one loop at a time. The loops of a forward pass follow each other
// within microseconds, so idle threads spin briefly before they sleep; nothing is allocated per
// loop. Each thread owns a fixed contiguous range of every loop (NUMA-local by first touch, the
// ranges of one node side by side); idle threads steal, same node first.

#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "graft/base/system/cpus.h"

namespace graft {

class ThreadPool {
 public:
  // `num_threads` includes the calling thread; 0 means one per usable core. Threads are spread over
  // the NUMA nodes. With a list of CPU ids in `cpus`, the threads and the callers of parallel_for
  // are pinned to these CPUs round-robin, and 0 threads means one per listed CPU.
  explicit ThreadPool(std::size_t num_threads = 0,
                      const std::vector<int>& cpus = {},
                      const std::vector<LogicalCpu>& machine = usable_cpus());
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  std::size_t num_threads() const;
  std::size_t num_nodes() const;  // NUMA nodes that have threads

  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  // The items of a loop that the threads of `node` own, in proportion to their number. The ranges
  // of all nodes, in order, cover [0, num_items).
  Range node_range(std::size_t node, std::size_t num_items) const;

  // While a SpinScope exists, idle threads spin without a time limit instead of sleeping. For
  // passes that alternate with another device, whose share takes longer than the spin time. Scopes
  // nest.
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
  // order, and returns when all calls are done. Concurrent calls have different `worker` indices,
  // below min(num_threads, num_items). The first exception thrown by a body is rethrown here after
  // the other threads have stopped.
  // A thread runs its own range in order, then steals from its node, then from other nodes.
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

  // The same without stealing across NUMA nodes: for the first touch of memory, which places each
  // page on the node that will read it.
  template <class Body>
  void parallel_for_local(std::size_t num_items, const Body& body) {
    run(num_items, false, &body, [](const void* any, std::size_t /*worker*/, std::size_t item) {
      (*static_cast<const Body*>(any))(item);
    });
  }

 private:
  using Call = void (*)(const void* body, std::size_t worker, std::size_t item);
  void run(std::size_t num_items, bool steal_across_nodes, const void* body, Call call);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft
