// What no model on this machine can exceed: how fast memory is read and how fast products are made,
// measured with all threads. Takes one to two seconds.

#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "graft/base/parallel.h"

namespace graft::perf {

struct Limits {
  double read_bytes_per_s = 0;
  // Two operations a product, everything in registers. Of bytes: 0 without instructions for them.
  double float_flops = 0;
  double byte_flops = 0;

  double flops() const { return std::max(float_flops, byte_flops); }
  const char* product() const { return byte_flops > float_flops ? "int8" : "float32"; }
};

Limits measure_limits(ThreadPool& pool);

// The first of them alone, bytes per second.
double measure_read_bandwidth(ThreadPool& pool);

// So many that reading them means memory: servers have caches of hundreds of megabytes.
std::size_t bytes_beyond_caches();

// The best of a few rounds: what the machine can do, not what else it did.
double best_seconds(const std::function<void()>& body);

}  // namespace graft::perf
