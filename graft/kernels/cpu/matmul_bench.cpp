// GFLOP/s of the float matrix product, one thread: x[rows, cols] with a block of weight rows that
// fits into the second-level cache, as the linear operator calls it.

#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/kernels/cpu/table.h"

namespace graft::cpu {
namespace {

constexpr std::int64_t kCols = 4096;
constexpr std::int64_t kRowsOfW = 24;

void matmul(benchmark::State& state, const KernelTable& table) {
  const std::int64_t rows = state.range(0);
  const std::vector<float> x(static_cast<std::size_t>(rows * kCols), 0.5F);
  const std::vector<float> w(static_cast<std::size_t>(kRowsOfW * kCols), 0.25F);
  std::vector<float> y(static_cast<std::size_t>(rows * kRowsOfW));
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    table.math.matmul({x.data(), rows, kCols}, {w.data(), kRowsOfW, kCols}, kCols, y.data(),
                      kRowsOfW);
    benchmark::DoNotOptimize(y.data());
  }
  const auto flops = static_cast<double>(2 * rows * kRowsOfW * kCols);
  state.counters["flop/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelTable* table : runnable_kernels()) {
    const std::string name = "matmul/" + std::string(table->isa);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [table](benchmark::State& state) { matmul(state, *table); })
        ->RangeMultiplier(4)
        ->Range(1, 256);
  }
  return true;
}();

}  // namespace
}  // namespace graft::cpu
