// Float matrix products on one thread. matmul: x[rows, cols] times a block of weight rows that fits
// into L2, as the linear operator calls it. stored: FP8 and 16-bit weights larger than the caches,
// converted in registers. decoded: the same weights decoded to float first, as for many rows of x.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/kernels/cpu/table.h"
#include "graft/quant/fp8_scale.h"
#include "graft/tensor/buffer.h"

namespace graft::kernels::cpu {
namespace {

constexpr std::int64_t kCols = 4096;
constexpr std::int64_t kWeightRows = 24;

void matmul(benchmark::State& state, const KernelTable& table) {
  const std::int64_t rows = state.range(0);
  const std::vector<float> x(static_cast<std::size_t>(rows * kCols), 0.5F);
  const std::vector<float> w(static_cast<std::size_t>(kWeightRows * kCols), 0.25F);
  std::vector<float> y(static_cast<std::size_t>(rows * kWeightRows));
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    table.math.matmul({x.data(), rows, kCols}, {w.data(), kWeightRows, kCols}, kCols, y.data(),
                      kWeightRows);
    benchmark::DoNotOptimize(y.data());
  }
  const auto flops = static_cast<double>(2 * rows * kWeightRows * kCols);
  state.counters["flop/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

constexpr std::int64_t kStoredBytes = std::int64_t{192} << 20;
constexpr std::int64_t kScaleCols = 128;

struct StoredType {
  DType dtype;
  void (*MathTable::*matmul)(RowsF32 x, StoredRows w, float* y, std::int64_t ldy);
};

constexpr std::array kStoredTypes = {
    StoredType{DType::F16, &MathTable::matmul_f16},
    StoredType{DType::BF16, &MathTable::matmul_bf16},
    StoredType{DType::F8_E4M3, &MathTable::matmul_e4m3},
    StoredType{DType::F8_E5M2, &MathTable::matmul_e5m2},
};

// Consecutive blocks of kWeightRows rows; FP8 has a scale per 128 columns.
void stored(benchmark::State& state, const KernelTable& table, StoredType type, bool decoded) {
  const std::int64_t rows = state.range(0);
  const auto stride = static_cast<std::int64_t>(bytes_of(type.dtype, kCols));
  const std::int64_t num_blocks = kStoredBytes / stride / kWeightRows;
  const Buffer weights(static_cast<std::size_t>(num_blocks * kWeightRows * stride));
  std::fill_n(weights.data(), weights.size(), std::byte{0x35});
  const std::vector<float> x(static_cast<std::size_t>(rows * kCols), 0.5F);
  std::vector<float> y(static_cast<std::size_t>(rows * kWeightRows));
  std::vector<float> floats(static_cast<std::size_t>(kWeightRows * kCols));
  const std::vector<float> scales(kCols / kScaleCols, 0.75F);
  const std::vector<const float*> row_scales(kWeightRows, scales.data());
  const quant::ScaleLayout layout = quant::ScaleLayout::fit(
      std::array{kWeightRows, kCols}, std::array{std::int64_t{1}, kCols / 128});
  const bool is_scaled = stride == kCols;
  for (auto _ : state) {
    for (std::int64_t block = 0; block < num_blocks; ++block) {
      const std::byte* data = weights.data() + block * kWeightRows * stride;
      if (!decoded) {
        (table.math.*type.matmul)({x.data(), rows, kCols},
                                  {.data = data,
                                   .rows = kWeightRows,
                                   .cols = kCols,
                                   .stride = stride,
                                   .scales = row_scales.data(),
                                   .cols_per_scale = kScaleCols},
                                  y.data(), kWeightRows);
        continue;
      }
      table.codecs[static_cast<std::size_t>(type.dtype)].decode(data, floats.data(), floats.size());
      if (is_scaled) layout.apply(floats.data(), 0, kWeightRows, scales);
      table.math.matmul({x.data(), rows, kCols}, {floats.data(), kWeightRows, kCols}, kCols,
                        y.data(), kWeightRows);
    }
    benchmark::DoNotOptimize(y.data());
  }
  using benchmark::Counter;
  const auto bytes = static_cast<double>(weights.size());
  const auto flops = static_cast<double>(2 * rows * num_blocks * kWeightRows * kCols);
  state.counters["B/s"] = Counter(bytes, Counter::kIsIterationInvariantRate);
  state.counters["flop/s"] = Counter(flops, Counter::kIsIterationInvariantRate);
}

void register_stored(const KernelTable& table) {
  for (const StoredType& type : kStoredTypes) {
    for (const bool decoded : {false, true}) {
      if (!decoded && table.math.*type.matmul == nullptr) continue;
      const std::string name = std::string(decoded ? "decoded/" : "stored/") +
                               std::string(graft::name(type.dtype)) + "/" + std::string(table.isa) +
                               "/rows";
      benchmark::RegisterBenchmark(
          name.c_str(),
          [&table, type, decoded](benchmark::State& state) { stored(state, table, type, decoded); })
          ->Arg(1)
          ->Arg(8)
          ->Arg(64);
    }
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelTable* table : runnable_kernels()) {
    const std::string name = "matmul/" + std::string(table->isa);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [table](benchmark::State& state) { matmul(state, *table); })
        ->RangeMultiplier(4)
        ->Range(1, 256);
    register_stored(*table);
  }
  return true;
}();

}  // namespace
}  // namespace graft::kernels::cpu
