// The machine's roofline: peak memory read bandwidth and peak arithmetic of all threads, which no
// model can exceed. Measuring takes one to two seconds.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "graft/base/parallel.h"

namespace graft::perf {

struct MachineLimits {
  double read_bytes_per_s = 0;
  // Multiply-adds on registers, two operations each.
  double f32_flops = 0;
  double int8_ops = 0;  // 0 without int8 dot-product instructions

  double flops() const { return std::max(f32_flops, int8_ops); }
  const char* product() const { return int8_ops > f32_flops ? "int8" : "float32"; }
};

MachineLimits measure_limits(ThreadPool& pool);

// Bytes per second.
double measure_read_bandwidth(ThreadPool& pool);

// A buffer size that no cache holds: twice the L3 cache (hundreds of MiB on servers), min 256 MiB;
// less where a quarter of the available memory is less, as in a container with a memory limit.
std::size_t uncached_bytes();
std::size_t uncached_bytes(std::uint64_t available);  // 0: unknown

// Seconds of the fastest of five runs of `body`: the minimum excludes interference.
double best_seconds(const std::function<void()>& body);

}  // namespace graft::perf
