#include "graft/kernels/cuda/linear/lora.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <cuda_fp16.h>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

class Lora : public testing::GpuTest {};

struct Adapter {
  std::int64_t rank = 0;
  Floats a;  // [heads, rank, in]
  Floats b;  // [heads or 1, rank, out]
};

// Two adapters of different ranks; B of the second one is shared by all heads.
TEST_F(Lora, AddsTheAdapterOfEachRow) {
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kIn = 70;
  constexpr std::int64_t kOut = 300;
  const std::vector<std::int32_t> adapters = {1, -1, 0, 2, 0};  // 2: not loaded
  const auto rows = static_cast<std::int64_t>(adapters.size());
  Random random(1);
  const std::vector<Adapter> given = {
      {.rank = 5, .a = random.floats(kHeads * 5 * kIn), .b = random.floats(kHeads * 5 * kOut)},
      {.rank = 17, .a = random.floats(kHeads * 17 * kIn), .b = random.floats(17 * kOut)}};
  const Floats x = random.floats(rows * kHeads * kIn);
  const Floats y = random.floats(rows * kHeads * kOut);

  Floats want = y;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t index = adapters[static_cast<std::size_t>(row)];
    if (index < 0 || index > 1) continue;
    const Adapter& adapter = given[static_cast<std::size_t>(index)];
    for (std::int64_t head = 0; head < kHeads; ++head) {
      for (std::int64_t i = 0; i < adapter.rank; ++i) {
        double low = 0;
        for (std::int64_t col = 0; col < kIn; ++col)
          low +=
              static_cast<double>(x[static_cast<std::size_t>((row * kHeads + head) * kIn + col)]) *
              adapter.a[static_cast<std::size_t>((head * adapter.rank + i) * kIn + col)];
        const std::int64_t b_head = index == 1 ? 0 : head;
        for (std::int64_t col = 0; col < kOut; ++col)
          want[static_cast<std::size_t>((row * kHeads + head) * kOut + col)] += static_cast<float>(
              low * adapter.b[static_cast<std::size_t>((b_head * adapter.rank + i) * kOut + col)]);
      }
    }
  }

  std::vector<LoraEntry> entries(3);
  std::vector<std::unique_ptr<DeviceArray<float>>> memory;
  for (std::size_t i = 0; i < given.size(); ++i) {
    memory.push_back(std::make_unique<DeviceArray<float>>(given[i].a));
    memory.push_back(std::make_unique<DeviceArray<float>>(given[i].b));
    entries[i] = {.a = memory[2 * i]->get(),
                  .b = memory[2 * i + 1]->get(),
                  .a_head_elems = given[i].rank * kIn,
                  .b_head_elems = i == 1 ? 0 : given[i].rank * kOut,
                  .rank = given[i].rank};
  }
  const DeviceArray<LoraEntry> table(entries);
  const DeviceArray<std::int32_t> by_row(adapters);
  const DeviceArray<float> in(x);
  const DeviceArray<float> out(y);
  const DeviceArray<float> low(static_cast<std::size_t>(rows * kHeads * 17));
  LoraGroup group = {.num_jobs = 1,
                     .adapters = by_row.get(),
                     .rows = rows,
                     .heads = kHeads,
                     .in = kIn,
                     .x = {in.get(), kHeads * kIn, kIn}};
  group.jobs[0] = {.entries = table.get(),
                   .out = kOut,
                   .max_rank = 17,
                   .y = {out.get(), kHeads * kOut, kOut},
                   .low = low.get()};
  add_lora(group, nullptr);
  const Floats got = out.download();
  EXPECT_LE(relative_error(got, want), 1e-5);
  for (std::int64_t col = 0; col < kHeads * kOut; ++col) {
    for (const std::int64_t row : {1, 3}) {
      const auto at = static_cast<std::size_t>(row * kHeads * kOut + col);
      ASSERT_EQ(got[at], y[at]) << "row " << row << " has no adapter";
    }
  }
}

// Rounded to the type, so that the kernel has the same values.
Floats rounded(Floats values, LoraType type) {
  for (float& value : values) {
    if (type == LoraType::F16) value = __half2float(__float2half(value));
    if (type == LoraType::BF16)
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);
  }
  return values;
}

std::vector<std::uint16_t> codes(const Floats& values, LoraType type) {
  std::vector<std::uint16_t> all;
  for (const float value : values) {
    all.push_back(type == LoraType::F16
                      ? std::bit_cast<std::uint16_t>(__float2half(value))
                      : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U));
  }
  return all;
}

// Three layers with the same input and adapters of three types, for a few rows (a block per
// component of the rank) and for many.
TEST_F(Lora, LayersOfOneInputShareLaunchesInEveryType) {
  constexpr std::int64_t kIn = 1028;
  constexpr std::array kTypes = {LoraType::F32, LoraType::F16, LoraType::BF16};
  constexpr std::array<std::int64_t, 3> kOuts = {40, 700, 256};
  constexpr std::array<std::int64_t, 3> kRanks = {3, 16, 9};  // of the adapters, in every layer
  constexpr float kScale = 0.5F;
  for (const std::int64_t rows : {7, 100}) {
    Random random(5);
    const Floats x = random.floats(rows * kIn);
    std::vector<std::int32_t> adapters;
    for (std::int64_t row = 0; row < rows; ++row)
      adapters.push_back(static_cast<std::int32_t>(row % 4) - 1);
    const DeviceArray<float> in(x);
    const DeviceArray<std::int32_t> by_row(adapters);
    std::vector<std::unique_ptr<DeviceArray<float>>> floats;
    std::vector<std::unique_ptr<DeviceArray<std::uint16_t>>> halves;
    const auto upload = [&](const Floats& values, LoraType type) -> const void* {
      if (type == LoraType::F32)
        return floats.emplace_back(std::make_unique<DeviceArray<float>>(values))->get();
      return halves.emplace_back(std::make_unique<DeviceArray<std::uint16_t>>(codes(values, type)))
          ->get();
    };
    LoraGroup group = {
        .num_jobs = 3, .adapters = by_row.get(), .rows = rows, .in = kIn, .x = {in.get(), kIn}};
    std::vector<std::vector<double>> want;
    std::vector<std::unique_ptr<DeviceArray<LoraEntry>>> tables;
    std::vector<DeviceArray<float>*> results;
    for (std::size_t layer = 0; layer < kOuts.size(); ++layer) {
      const std::int64_t out = kOuts[layer];
      std::vector<LoraEntry> entries;
      std::vector<double> sums(static_cast<std::size_t>(rows * out), 1.0);
      for (std::size_t i = 0; i < kTypes.size(); ++i) {
        const std::int64_t rank = kRanks[i];
        const Floats a = rounded(random.floats(rank * kIn), kTypes[i]);
        const Floats b = rounded(random.floats(rank * out), kTypes[i]);
        entries.push_back({.a = upload(a, kTypes[i]),
                           .b = upload(b, kTypes[i]),
                           .rank = rank,
                           .scale = kScale,
                           .type = kTypes[i]});
        for (std::int64_t row = static_cast<std::int64_t>(i) + 1; row < rows; row += 4) {
          for (std::int64_t k = 0; k < rank; ++k) {
            double low = 0;
            for (std::int64_t col = 0; col < kIn; ++col)
              low += static_cast<double>(x[static_cast<std::size_t>(row * kIn + col)]) *
                     a[static_cast<std::size_t>(k * kIn + col)];
            for (std::int64_t col = 0; col < out; ++col)
              sums[static_cast<std::size_t>(row * out + col)] +=
                  kScale * low * b[static_cast<std::size_t>(k * out + col)];
          }
        }
      }
      want.push_back(std::move(sums));
      tables.push_back(std::make_unique<DeviceArray<LoraEntry>>(entries));
      results.push_back(floats
                            .emplace_back(std::make_unique<DeviceArray<float>>(
                                Floats(static_cast<std::size_t>(rows * out), 1.0F)))
                            .get());
      floats.push_back(std::make_unique<DeviceArray<float>>(static_cast<std::size_t>(rows * 16)));
      group.jobs[layer] = {.entries = tables.back()->get(),
                           .out = out,
                           .max_rank = 16,
                           .y = {results.back()->get(), out},
                           .low = floats.back()->get()};
    }
    add_lora(group, nullptr);
    for (std::size_t layer = 0; layer < kOuts.size(); ++layer)
      EXPECT_LE(relative_error(results[layer]->download(), want[layer]), 1e-5)
          << rows << " rows, layer " << layer;
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
