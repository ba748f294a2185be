// Codec throughput per type and instruction set on one thread.
// decode: bytes_per_second counts the encoded bytes, "floats" the bytes of the result.
// encode: bytes_per_second counts the floats read.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/kernels/cpu/table.h"

namespace graft::kernels::cpu {
namespace {

// 1 MiB of floats: larger than L1, fits into L2.
constexpr std::size_t kNumValues = std::size_t{1} << 18;

std::vector<float> normal_values() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(kNumValues);
  for (float& value : values)
    value = normal(random);
  return values;
}

std::vector<std::byte> encoded_values(const quant::Codec& codec, DType type) {
  std::vector<std::byte> bytes(bytes_of(type, kNumValues));
  if (codec.encode != nullptr) {
    codec.encode(normal_values().data(), bytes.data(), kNumValues);
  } else {
    // Bytes below 64 keep the f16 scales finite.
    std::mt19937 random(1);
    for (std::byte& b : bytes)
      b = static_cast<std::byte>(random() & 0x3f);
  }
  return bytes;
}

void set_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void decode(benchmark::State& state, const quant::Codec& codec, DType type) {
  const std::vector<std::byte> bytes = encoded_values(codec, type);
  std::vector<float> values(kNumValues);
  for (auto _ : state) {
    codec.decode(bytes.data(), values.data(), kNumValues);
    benchmark::DoNotOptimize(values.data());
  }
  set_bytes(state, bytes.size());
  state.counters["floats"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kNumValues * sizeof(float),
                         benchmark::Counter::kIsRate, benchmark::Counter::OneK::kIs1024);
}

void encode(benchmark::State& state, const quant::Codec& codec, DType type) {
  const std::vector<float> values = normal_values();
  std::vector<std::byte> bytes(bytes_of(type, kNumValues));
  for (auto _ : state) {
    codec.encode(values.data(), bytes.data(), kNumValues);
    benchmark::DoNotOptimize(bytes.data());
  }
  set_bytes(state, kNumValues * sizeof(float));
}

bool register_all() {
  for (const KernelTable* table : runnable_kernels()) {
    for (const DTypeInfo& row : kDTypes) {
      const quant::Codec& codec = table->codecs[static_cast<std::size_t>(row.type)];
      const std::string suffix = "/" + std::string(row.name) + "/" + std::string(table->isa);
      benchmark::RegisterBenchmark(("decode" + suffix).c_str(), decode, codec, row.type);
      if (codec.encode == nullptr) continue;
      benchmark::RegisterBenchmark(("encode" + suffix).c_str(), encode, codec, row.type);
    }
  }
  return true;
}

const bool kRegistered = register_all();

}  // namespace
}  // namespace graft::kernels::cpu
