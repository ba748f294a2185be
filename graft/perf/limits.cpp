#include "graft/perf/limits.h"

#include <chrono>
#include <cstdint>
#include <vector>

#include <unistd.h>

#include "graft/base/check.h"
#include "graft/base/system/system.h"
#include "graft/kernels/cpu/table.h"
#include "graft/tensor/buffer.h"

namespace graft::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMinBytes = std::size_t{256} << 20U;
constexpr std::size_t kSmallestBytes = std::size_t{16} << 20U;  // even with less free memory
constexpr int kRounds = 5;
// A limit is the best round within this time. Rounds last a few milliseconds, so that some of them
// run undisturbed on a machine that also runs other programs.
constexpr double kSecondsPerLimit = 0.4;
// Chunks are handed to idle threads at run time, which costs under a microsecond each.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;
constexpr std::size_t kChunksPerThread = 4;
constexpr std::size_t kMinChunks = 64;  // per round of reading
constexpr std::int64_t kMultiplyAddRounds = 50'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of the fastest round within kSecondsPerLimit.
double best_round_seconds(const std::function<void(std::size_t round)>& body) {
  double best = 1e30;
  const Clock::time_point begin = Clock::now();
  for (std::size_t round = 0; round < kRounds || seconds_since(begin) < kSecondsPerLimit; ++round) {
    const Clock::time_point start = Clock::now();
    body(round);
    best = std::min(best, seconds_since(start));
  }
  return std::max(best, 1e-9);
}

// Peak operations per second of a multiply-add loop, which returns how many products it added.
double measure_peak(double (*add_products)(std::int64_t), ThreadPool& pool) {
  if (add_products == nullptr) return 0;
  std::vector<double> products(kChunksPerThread * pool.num_threads());
  const double seconds = best_round_seconds([&](std::size_t) {
    pool.parallel_for(products.size(),
                      [&](std::size_t i) { products[i] = add_products(kMultiplyAddRounds); });
  });
  return 2 * products[0] * static_cast<double>(products.size()) / seconds;
}

}  // namespace

std::size_t uncached_bytes() {
  return uncached_bytes(available_memory());
}

std::size_t uncached_bytes(std::uint64_t available) {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t wanted = std::max(kMinBytes, 2 * static_cast<std::size_t>(std::max(cache, 0L)));
  if (available == 0) return wanted;  // unknown
  // A measured operator has the weight, its packed copy and scratch memory at once.
  const std::uint64_t allowed = std::max<std::uint64_t>(available / 4, kSmallestBytes);
  return static_cast<std::size_t>(std::min<std::uint64_t>(wanted, allowed));
}

double best_seconds(const std::function<void()>& body) {
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    body();
    best = std::min(best, seconds_since(start));
  }
  return std::max(best, 1e-9);
}

double measure_read_bandwidth(ThreadPool& pool) {
  constexpr std::size_t kChunkValues = kChunkBytes / sizeof(float);
  constexpr std::size_t kMinWindows = 4;
  const std::size_t total_bytes = uncached_bytes();
  const std::size_t window_chunks =
      std::min(std::max(kMinChunks, kChunksPerThread * pool.num_threads()),
               total_bytes / kMinWindows / kChunkBytes);
  const std::size_t window_bytes = window_chunks * kChunkBytes;
  const std::size_t num_windows = total_bytes / window_bytes;
  const Buffer buffer(num_windows * window_bytes);
  auto* values = reinterpret_cast<float*>(buffer.data());
  // First touch by the reading thread makes the pages NUMA-local, as packed weights are.
  for (std::size_t w = 0; w < num_windows; ++w) {
    float* window = values + w * window_chunks * kChunkValues;
    pool.parallel_for_local(window_chunks, [&](std::size_t i) {
      std::fill_n(window + i * kChunkValues, kChunkValues, 1.0F);
    });
  }
  std::vector<float> maxima(window_chunks);
  // Cycle through the windows: together they are larger than the caches, so every read misses.
  const double seconds = best_round_seconds([&](std::size_t round) {
    const float* window = values + round % num_windows * window_chunks * kChunkValues;
    pool.parallel_for(window_chunks, [&](std::size_t i) {
      maxima[i] = kernels::cpu::kernels().math.max(window + i * kChunkValues, kChunkValues);
    });
  });
  // Using the result keeps the compiler from removing the reads.
  GRAFT_CHECK(std::ranges::all_of(maxima, [](float value) { return value == 1.0F; }),
              "the bandwidth test read a wrong value");
  return static_cast<double>(window_bytes) / seconds;
}

MachineLimits measure_limits(ThreadPool& pool) {
  const kernels::cpu::PeakTable& peak = kernels::cpu::kernels().peak;
  return {.read_bytes_per_s = measure_read_bandwidth(pool),
          .f32_flops = measure_peak(peak.f32_products, pool),
          .int8_ops = measure_peak(peak.int8_products, pool)};
}

}  // namespace graft::perf
