// The machine's roofline: peak memory read bandwidth and peak arithmetic of all threads, which no
// model can exceed. Measuring takes one to two seconds.

#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "graft/base/parallel.h"

namespace graft::perf {

struct Limits {
  double read_bytes_per_s = 0;
  // Multiply-adds on registers, two operations each.
  double float_flops = 0;  // f32
  double byte_flops = 0;   // int8; 0 without int8 dot-product instructions

  double flops() const { return std::max(float_flops, byte_flops); }
  const char* product() const { return byte_flops > float_flops ? "int8" : "float32"; }
};

Limits measure_limits(ThreadPool& pool);

// Bytes per second.
double measure_read_bandwidth(ThreadPool& pool);

// A buffer size that no cache holds: twice the L3 cache (hundreds of MiB on servers), min 256 MiB.
std::size_t uncached_bytes();

// Seconds of the fastest of five runs of `body`: the minimum excludes interference.
double best_seconds(const std::function<void()>& body);

}  // namespace graft::perf
