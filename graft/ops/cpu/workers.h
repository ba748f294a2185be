// Parallel loops whose items need scratch memory: the worker index selects the scratch.

#pragma once

#include <algorithm>
#include <cstdint>

#include "graft/base/parallel.h"

namespace graft::ops::cpu {

// Max workers of a loop over `num_items`, which is also the number of scratch rows to allocate.
inline std::int64_t num_workers(const ThreadPool& pool, std::int64_t num_items) {
  return std::min(static_cast<std::int64_t>(pool.num_threads()), num_items);
}

// Calls body(worker, item) once per item. Results must not depend on the worker.
template <class Body>
void for_each_item(ThreadPool& pool, std::int64_t num_items, const Body& body) {
  pool.parallel_for(static_cast<std::size_t>(num_items), [&](std::size_t worker, std::size_t item) {
    body(static_cast<std::int64_t>(worker), static_cast<std::int64_t>(item));
  });
}

}  // namespace graft::ops::cpu
