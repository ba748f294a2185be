// Speed of the products with packed weights, per type, rows of x and instruction set, on one
// thread, beside what this processor can do. `share` is of the read bandwidth for up to 4 rows of
// x, and of the rate of byte products (peak.h; none at the scalar level, none for floats) for more.
// pack: bytes_per_second counts the bytes of the file.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/kernels/cpu/table.h"
#include "graft/tensor/buffer.h"

namespace graft::kernels::cpu {
namespace {

constexpr std::int64_t kCols = 4096;
// Weights beyond the caches for a few rows; for many, what the caches of one core hold is read
// again and again as in a forward pass.
constexpr std::int64_t kBytesOfFew = std::int64_t{192} << 20;
constexpr std::int64_t kOutputsOfMany = 512;
constexpr std::int64_t kFew = 4;

double seconds_of(auto&& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

// Bytes a second that one thread reads from memory.
double read_limit() {
  static const double limit = [] {
    const Buffer memory(kBytesOfFew);
    std::fill_n(memory.data(), memory.size(), std::byte{1});
    const auto* floats = reinterpret_cast<const float*>(memory.data());
    constexpr auto kCount = static_cast<std::int64_t>(kBytesOfFew / sizeof(float));
    const double seconds =
        seconds_of([&] { benchmark::DoNotOptimize(kernels().math.max(floats, kCount)); });
    return static_cast<double>(kBytesOfFew) / seconds;
  }();
  return limit;
}

// Operations a second with everything in registers, two a product; 0 without byte products.
double product_limit(const KernelTable& table, PackedFormat format) {
  if (table.peak.add_byte_products == nullptr || format.as_bf16) return 0;
  constexpr std::int64_t kRounds = 100'000;
  double products = 0;
  const double seconds = seconds_of([&] { products = table.peak.add_byte_products(kRounds); });
  return 2 * products / seconds;
}

struct Weights {
  Buffer panels;
  std::int64_t outputs = 0;
};

StoredRows stored(DType type, const std::vector<std::byte>& rows) {
  return {.data = rows.data(),
          .rows = kPanelRows,
          .cols = kCols,
          .stride = static_cast<std::int64_t>(bytes_of(type, kCols))};
}

// The same panel over and over: speed does not depend on values.
Weights make_weights(DType type, std::int64_t num_panels) {
  std::vector<float> values(static_cast<std::size_t>(kPanelRows * kCols));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  for (float& value : values)
    value = normal(random);
  std::vector<std::byte> rows(bytes_of(type, kPanelRows * kCols));
  kernels().codecs[static_cast<std::size_t>(type)].encode(values.data(), rows.data(),
                                                          values.size());
  const std::int64_t bytes = panel_bytes(packed_format(type), kCols);
  Weights weights{.panels = Buffer(static_cast<std::size_t>(num_panels * bytes)),
                  .outputs = num_panels * kPanelRows};
  for (std::int64_t p = 0; p < num_panels; ++p) {
    pack_panel(type, stored(type, rows), weights.panels.data() + p * bytes);
  }
  return weights;
}

void multiply(benchmark::State& state, const KernelTable& table, DType type) {
  const std::int64_t rows = state.range(0);
  const PackedFormat format = packed_format(type);
  const bool few = rows <= kFew;
  const Weights weights = make_weights(
      type, few ? kBytesOfFew / panel_bytes(format, kCols) : kOutputsOfMany / kPanelRows);
  const PackedKernel& kernel = table.packed.kernels[static_cast<std::size_t>(type)];
  const std::vector<float> x(static_cast<std::size_t>(kCols), 0.5F);
  const std::vector<const float*> row_of_x(static_cast<std::size_t>(rows), x.data());
  std::vector<std::byte> rounded(static_cast<std::size_t>(rows * rounded_row_bytes(format, kCols)));
  for (std::int64_t row = 0; row < rows; row += table.packed.tile_rows) {
    kernel.round(row_of_x.data() + row, std::min(table.packed.tile_rows, rows - row), kCols,
                 rounded.data() + row * rounded_row_bytes(format, kCols));
  }
  std::vector<float> y(static_cast<std::size_t>(rows * weights.outputs));
  for (auto _ : state) {
    kernel.multiply(weights.panels.data(), weights.outputs, kCols, rounded.data(), rows, y.data(),
                    weights.outputs);
    benchmark::DoNotOptimize(y.data());
  }
  using benchmark::Counter;
  const auto bytes = static_cast<double>(weights.panels.size());
  const auto products = static_cast<double>(2 * rows * weights.outputs * kCols);
  const double limit = few ? read_limit() : product_limit(table, format);
  state.counters["B/s"] = Counter(bytes, Counter::kIsIterationInvariantRate);
  state.counters["op/s"] = Counter(products, Counter::kIsIterationInvariantRate);
  if (limit > 0) {
    state.counters["share"] =
        Counter((few ? bytes : products) / limit, Counter::kIsIterationInvariantRate);
  }
}

void pack(benchmark::State& state, DType type) {
  std::vector<std::byte> rows(bytes_of(type, kPanelRows * kCols));
  std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(packed_format(type), kCols)));
  for (auto _ : state) {
    pack_panel(type, stored(type, rows), panel.data());
    benchmark::DoNotOptimize(panel.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
}

void round_rows(benchmark::State& state, const KernelTable& table) {
  const std::vector<float> x(static_cast<std::size_t>(kCols), 0.5F);
  const float* row = x.data();
  std::vector<std::byte> rounded(
      static_cast<std::size_t>(rounded_row_bytes(packed_format(DType::Q4_K), kCols)));
  for (auto _ : state) {
    table.packed.kernels[static_cast<std::size_t>(DType::Q4_K)].round(&row, 1, kCols,
                                                                      rounded.data());
    benchmark::DoNotOptimize(rounded.data());
  }
  state.SetItemsProcessed(state.iterations() * kCols);
}

bool register_all() {
  for (const DTypeInfo& row : kDTypes) {
    if (!has_packed_form(row.type)) continue;
    benchmark::RegisterBenchmark(("pack/" + std::string(row.name)).c_str(), pack, row.type);
    for (const KernelTable* table : runnable_kernels()) {
      if (table->packed.kernels[static_cast<std::size_t>(row.type)].multiply == nullptr) continue;
      const std::string name =
          "packed/" + std::string(row.name) + "/" + std::string(table->isa) + "/rows";
      benchmark::RegisterBenchmark(
          name.c_str(),
          [table, type = row.type](benchmark::State& state) { multiply(state, *table, type); })
          ->Arg(1)
          ->Arg(4)
          ->Arg(8)
          ->Arg(32)
          ->Arg(96);
    }
  }
  for (const KernelTable* table : runnable_kernels()) {
    benchmark::RegisterBenchmark(("round/" + std::string(table->isa)).c_str(),
                                 [table](benchmark::State& state) { round_rows(state, *table); });
  }
  return true;
}

[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace graft::kernels::cpu
