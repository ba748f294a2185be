// GEMV and GEMM with packed weights on one thread, per type, rows of x and instruction set. `share`
// is relative to the read bandwidth for up to 4 rows of x, and to the peak rate of int8 products
// for more (peak.h; not reported at the scalar level and for float types).
// pack: bytes_per_second counts the stored bytes.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/kernels/cpu/table.h"
#include "graft/packing/pack_panel.h"
#include "graft/tensor/buffer.h"

namespace graft::kernels::cpu {
namespace {

constexpr std::int64_t kCols = 4096;
// GEMV: weights larger than the caches. GEMM: weights that stay in the caches of one core.
constexpr std::int64_t kGemvBytes = std::int64_t{192} << 20;
constexpr std::int64_t kGemmOutputs = 512;
constexpr std::int64_t kMaxGemv = 4;

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

// Bytes per second that one thread reads from memory.
double read_limit() {
  static const double limit = [] {
    const Buffer memory(kGemvBytes);
    std::fill_n(memory.data(), memory.size(), std::byte{1});
    const auto* floats = reinterpret_cast<const float*>(memory.data());
    constexpr auto kCount = static_cast<std::int64_t>(kGemvBytes / sizeof(float));
    const double seconds =
        seconds_of([&] { benchmark::DoNotOptimize(kernels().math.max(floats, kCount)); });
    return static_cast<double>(kGemvBytes) / seconds;
  }();
  return limit;
}

// Operations per second with all operands in registers, two per product; 0 without int8 products.
double product_limit(const KernelTable& table, PackedFormat format) {
  if (table.peak.int8_products == nullptr || format.as_bf16) return 0;
  constexpr std::int64_t kRounds = 100'000;
  double products = 0;
  const double seconds = seconds_of([&] { products = table.peak.int8_products(kRounds); });
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

// 16 rows of a panel; types without an encoder get random bytes.
std::vector<std::byte> make_rows(DType type) {
  std::vector<float> values(static_cast<std::size_t>(kPanelRows * kCols));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  for (float& value : values)
    value = normal(random);
  std::vector<std::byte> rows(bytes_of(type, kPanelRows * kCols));
  const quant::Codec& codec = kernels().codecs[static_cast<std::size_t>(type)];
  if (codec.encode != nullptr) {
    codec.encode(values.data(), rows.data(), values.size());
  } else {
    std::ranges::generate(rows, [&] { return static_cast<std::byte>(random()); });
  }
  return rows;
}

// Repeats one panel: the speed does not depend on the values.
Weights make_weights(DType type, std::int64_t num_panels) {
  const std::vector<std::byte> rows = make_rows(type);
  const std::int64_t bytes = panel_bytes(packed_format(type), kCols);
  Weights weights{.panels = Buffer(static_cast<std::size_t>(num_panels * bytes)),
                  .outputs = num_panels * kPanelRows};
  for (std::int64_t p = 0; p < num_panels; ++p) {
    packing::pack_panel(type, stored(type, rows), kernels().codecs,
                        weights.panels.data() + p * bytes);
  }
  return weights;
}

void multiply(benchmark::State& state, const KernelTable& table, DType type) {
  const std::int64_t rows = state.range(0);
  const PackedFormat format = packed_format(type);
  const bool is_gemv = rows <= kMaxGemv;
  const Weights weights = make_weights(
      type, is_gemv ? kGemvBytes / panel_bytes(format, kCols) : kGemmOutputs / kPanelRows);
  const PackedKernel& kernel = table.packed.kernels[static_cast<std::size_t>(type)];
  const std::vector<float> x(static_cast<std::size_t>(kCols), 0.5F);
  const std::vector<const float*> row_of_x(static_cast<std::size_t>(rows), x.data());
  std::vector<std::byte> quantized(
      static_cast<std::size_t>(rows * quantized_row_bytes(format, kCols)));
  for (std::int64_t row = 0; row < rows; row += table.packed.tile_rows) {
    kernel.quantize(row_of_x.data() + row, std::min(table.packed.tile_rows, rows - row), kCols,
                    quantized.data() + row * quantized_row_bytes(format, kCols));
  }
  std::vector<float> y(static_cast<std::size_t>(rows * weights.outputs));
  for (auto _ : state) {
    kernel.multiply(weights.panels.data(), weights.outputs, kCols, quantized.data(), rows, y.data(),
                    weights.outputs);
    benchmark::DoNotOptimize(y.data());
  }
  using benchmark::Counter;
  const auto bytes = static_cast<double>(weights.panels.size());
  const auto products = static_cast<double>(2 * rows * weights.outputs * kCols);
  const double limit = is_gemv ? read_limit() : product_limit(table, format);
  state.counters["B/s"] = Counter(bytes, Counter::kIsIterationInvariantRate);
  state.counters["op/s"] = Counter(products, Counter::kIsIterationInvariantRate);
  if (limit > 0) {
    state.counters["share"] =
        Counter((is_gemv ? bytes : products) / limit, Counter::kIsIterationInvariantRate);
  }
}

void pack(benchmark::State& state, DType type) {
  std::vector<std::byte> rows(bytes_of(type, kPanelRows * kCols));
  std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(packed_format(type), kCols)));
  for (auto _ : state) {
    packing::pack_panel(type, stored(type, rows), kernels().codecs, panel.data());
    benchmark::DoNotOptimize(panel.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
}

void quantize_rows(benchmark::State& state, const KernelTable& table) {
  const std::vector<float> x(static_cast<std::size_t>(kCols), 0.5F);
  const float* row = x.data();
  std::vector<std::byte> quantized(
      static_cast<std::size_t>(quantized_row_bytes(packed_format(DType::Q4_K), kCols)));
  for (auto _ : state) {
    table.packed.kernels[static_cast<std::size_t>(DType::Q4_K)].quantize(&row, 1, kCols,
                                                                         quantized.data());
    benchmark::DoNotOptimize(quantized.data());
  }
  state.SetItemsProcessed(state.iterations() * kCols);
}

bool register_all() {
  for (const DTypeInfo& row : kDTypes) {
    if (!packing::has_packed_layout(row.type)) continue;
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
    benchmark::RegisterBenchmark(
        ("quantize/" + std::string(table->isa)).c_str(),
        [table](benchmark::State& state) { quantize_rows(state, *table); });
  }
  return true;
}

[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace graft::kernels::cpu
