// Loops whose items need scratch memory: items are shared out to workers, and worker w may use
// whatever is reserved under its number.

#pragma once

#include <algorithm>
#include <cstdint>

#include "graft/base/parallel.h"

namespace graft::ops::cpu {

// How many workers a loop over `num_items` gets at most; scratch is taken for that many.
inline std::int64_t num_workers(const ThreadPool& pool, std::int64_t num_items) {
  return std::min(static_cast<std::int64_t>(pool.num_threads()), num_items);
}

// Calls body(worker, item) once for every item. No result may depend on the worker.
template <class Body>
void for_each_item(ThreadPool& pool, std::int64_t num_items, const Body& body) {
  pool.parallel_for(static_cast<std::size_t>(num_items), [&](std::size_t worker, std::size_t item) {
    body(static_cast<std::int64_t>(worker), static_cast<std::int64_t>(item));
  });
}

}  // namespace graft::ops::cpu
