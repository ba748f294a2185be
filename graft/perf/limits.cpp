#include "graft/perf/limits.h"

#include <chrono>
#include <cstdint>
#include <vector>

#include <unistd.h>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/tensor/buffer.h"

namespace graft::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMinBytes = std::size_t{256} << 20U;
constexpr int kRounds = 5;
// Each limit is the best of what fits into this time. Rounds are short, a few milliseconds: beside
// other programs some of them run undisturbed, where none of a few long ones would.
constexpr double kSecondsPerLimit = 0.4;
// Threads take pieces as they come; handing one out takes under a microsecond.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;
constexpr std::size_t kPiecesPerThread = 4;
constexpr std::size_t kMinPieces = 64;  // of a round of reading
constexpr std::int64_t kProductRounds = 50'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double best_short_round(const std::function<void(std::size_t round)>& body) {
  double best = 1e30;
  const Clock::time_point begin = Clock::now();
  for (std::size_t round = 0; round < kRounds || seconds_since(begin) < kSecondsPerLimit; ++round) {
    const Clock::time_point start = Clock::now();
    body(round);
    best = std::min(best, seconds_since(start));
  }
  return std::max(best, 1e-9);
}

double measure_products(double (*add_products)(std::int64_t), ThreadPool& pool) {
  if (add_products == nullptr) return 0;
  std::vector<double> products(kPiecesPerThread * pool.num_threads());
  const double seconds = best_short_round([&](std::size_t) {
    pool.parallel_for(products.size(),
                      [&](std::size_t i) { products[i] = add_products(kProductRounds); });
  });
  return 2 * products[0] * static_cast<double>(products.size()) / seconds;
}

}  // namespace

std::size_t bytes_beyond_caches() {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max(kMinBytes, 2 * static_cast<std::size_t>(std::max(cache, 0L)));
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
  constexpr std::size_t kPieceValues = kPieceBytes / sizeof(float);
  const std::size_t window_pieces = std::max(kMinPieces, kPiecesPerThread * pool.num_threads());
  const std::size_t window_bytes = window_pieces * kPieceBytes;
  const std::size_t num_windows = std::max<std::size_t>(4, bytes_beyond_caches() / window_bytes);
  const Buffer buffer(num_windows * window_bytes);
  auto* values = reinterpret_cast<float*>(buffer.data());
  // As weights are: each thread finds what it reads beside it.
  for (std::size_t w = 0; w < num_windows; ++w) {
    float* window = values + w * window_pieces * kPieceValues;
    pool.parallel_for_local(window_pieces, [&](std::size_t i) {
      std::fill_n(window + i * kPieceValues, kPieceValues, 1.0F);
    });
  }
  std::vector<float> found(window_pieces);
  // One window after the other: when the first one's turn comes again, no cache has it any more.
  const double seconds = best_short_round([&](std::size_t round) {
    const float* window = values + round % num_windows * window_pieces * kPieceValues;
    pool.parallel_for(window_pieces, [&](std::size_t i) {
      found[i] = kernels::cpu::kernels().math.max(window + i * kPieceValues, kPieceValues);
    });
  });
  // The result is used, so the reading is done.
  GRAFT_CHECK(std::ranges::all_of(found, [](float value) { return value == 1.0F; }), "bad read");
  return static_cast<double>(window_bytes) / seconds;
}

Limits measure_limits(ThreadPool& pool) {
  const kernels::cpu::PeakTable& peak = kernels::cpu::kernels().peak;
  return {.read_bytes_per_s = measure_read_bandwidth(pool),
          .float_flops = measure_products(peak.add_float_products, pool),
          .byte_flops = measure_products(peak.add_byte_products, pool)};
}

}  // namespace graft::perf
