// The matrix products and the softmax of attention on one thread: a block of 64 keys, 4 to 64 query
// rows.

#include <algorithm>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/kernels/cpu/table.h"

namespace graft::kernels::cpu {
namespace {

constexpr std::int64_t kKeys = 64;

// Aligned like the workspace.
struct alignas(64) Line {
  float at[16];
};

class Floats {
 public:
  explicit Floats(std::int64_t count) : lines_(static_cast<std::size_t>(count + 15) / 16) {
    for (std::int64_t i = 0; i < count; ++i)
      data()[i] = static_cast<float>(i % 61) * 0.01F - 0.3F;
  }
  float* data() { return lines_.data()->at; }

 private:
  std::vector<Line> lines_;
};

void set_flops(benchmark::State& state, std::int64_t flops) {
  state.counters["flop/s"] =
      benchmark::Counter(static_cast<double>(flops), benchmark::Counter::kIsIterationInvariantRate);
}

// Arguments: query rows, key_dim
void scores(benchmark::State& state, const KernelTable& table) {
  const std::int64_t width = state.range(0);
  const std::int64_t dim = state.range(1);
  Floats keys(kKeys * dim);
  Floats queries(dim * width);
  Floats out(kKeys * width);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    table.math.product({.a = keys.data(),
                        .a_row = dim,
                        .b = queries.data(),
                        .ldb = width,
                        .c = out.data(),
                        .ldc = width,
                        .m = kKeys,
                        .n = width,
                        .k = dim});
    benchmark::DoNotOptimize(out.data());
  }
  set_flops(state, 2 * kKeys * width * dim);
}

// Arguments: query rows, value_dim
void weighted_values(benchmark::State& state, const KernelTable& table) {
  const std::int64_t width = state.range(0);
  const std::int64_t dim = state.range(1);
  Floats weights(kKeys * width);
  Floats rows(kKeys * dim);
  const std::vector<float> factor(static_cast<std::size_t>(width), 0.5F);
  Floats out(width * dim);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    table.math.product({.a = weights.data(),
                        .a_row = 1,
                        .a_col = width,
                        .b = rows.data(),
                        .ldb = dim,
                        .c = out.data(),
                        .ldc = dim,
                        .m = width,
                        .n = dim,
                        .k = kKeys,
                        .factor = factor.data()});
    benchmark::DoNotOptimize(out.data());
  }
  set_flops(state, 2 * kKeys * width * dim);
}

// Arguments: query rows, masked
void softmax(benchmark::State& state, const KernelTable& table) {
  const std::int64_t width = state.range(0);
  const auto rows = static_cast<std::size_t>(width);
  Floats from(kKeys * width);
  Floats work(kKeys * width);
  std::vector<float> max(rows, 0.0F);
  std::vector<float> sum(rows);
  std::vector<float> correction(rows);
  const std::vector<std::int32_t> first(rows, 3);
  const std::vector<std::int32_t> end(rows, 50);
  const bool masked = state.range(1) != 0;
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    std::copy_n(from.data(), kKeys * width, work.data());
    table.math.softmax_block({.scores = work.data(),
                              .count = kKeys,
                              .width = width,
                              .first = masked ? first.data() : nullptr,
                              .end = masked ? end.data() : nullptr,
                              .max = max.data(),
                              .sum = sum.data(),
                              .correction = correction.data()});
    benchmark::DoNotOptimize(work.data());
  }
  state.SetItemsProcessed(state.iterations() * kKeys * width);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelTable* table : runnable_kernels()) {
    const std::string suffix = "/" + std::string(table->isa);
    benchmark::RegisterBenchmark(("attention_scores" + suffix).c_str(),
                                 [table](benchmark::State& state) { scores(state, *table); })
        ->ArgsProduct({{4, 8, 16, 32, 48, 64}, {64, 128, 576}});
    benchmark::RegisterBenchmark(
        ("attention_values" + suffix).c_str(),
        [table](benchmark::State& state) { weighted_values(state, *table); })
        ->ArgsProduct({{4, 8, 16, 64}, {64, 128, 512}});
    benchmark::RegisterBenchmark(("attention_softmax" + suffix).c_str(),
                                 [table](benchmark::State& state) { softmax(state, *table); })
        ->ArgsProduct({{4, 8, 16, 64}, {0, 1}});
  }
  return true;
}();

}  // namespace
}  // namespace graft::kernels::cpu
