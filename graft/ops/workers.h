// Loops whose items need scratch memory: items are shared out to workers, and worker w may use
// whatever is reserved under its number.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "graft/base/parallel.h"

namespace graft::ops {

// How many workers a loop over `num_items` gets at most; scratch is taken for that many.
inline std::int64_t num_workers(const ThreadPool& pool, std::int64_t num_items) {
  return std::min(static_cast<std::int64_t>(pool.num_threads()), num_items);
}

// Calls body(worker, item) once for every item. No result may depend on the worker.
template <class Body>
void for_each_item(ThreadPool& pool, std::int64_t num_items, const Body& body) {
  const std::int64_t workers = num_workers(pool, num_items);
  if (workers == 1) {
    for (std::int64_t item = 0; item < num_items; ++item)
      body(std::int64_t{0}, item);
    return;
  }
  std::atomic<std::int64_t> next = 0;
  pool.parallel_for(static_cast<std::size_t>(workers), [&](std::size_t worker) {
    for (std::int64_t item = next++; item < num_items; item = next++)
      body(static_cast<std::int64_t>(worker), item);
  });
}

}  // namespace graft::ops
