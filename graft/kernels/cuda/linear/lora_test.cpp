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

constexpr std::int64_t kGroupIn = 1028;
constexpr std::int64_t kMaxRank = 16;
constexpr std::array kTypes = {LoraType::F32, LoraType::F16, LoraType::BF16};
constexpr std::array<std::int64_t, 3> kRanks = {3, kMaxRank, 9};  // of the adapters

// A layer with an adapter of each type, on the device; row r has adapter r % 4 - 1.
class GroupedLayer {
 public:
  GroupedLayer(const Floats& x, std::int64_t out, Random& random)
      : rows_(std::ssize(x) / kGroupIn),
        out_(out),
        want_(static_cast<std::size_t>(rows_ * out), 1.0),
        y_(Floats(want_.size(), 1.0F)),
        low_(static_cast<std::size_t>(rows_ * kMaxRank)),
        table_(kTypes.size()) {
    std::vector<LoraEntry> entries;
    for (std::size_t i = 0; i < kTypes.size(); ++i) {
      const Floats a = rounded(random.floats(kRanks[i] * kGroupIn), kTypes[i]);
      const Floats b = rounded(random.floats(kRanks[i] * out), kTypes[i]);
      entries.push_back({.a = upload(a, kTypes[i]),
                         .b = upload(b, kTypes[i]),
                         .rank = kRanks[i],
                         .scale = kScale,
                         .type = kTypes[i]});
      for (std::int64_t row = static_cast<std::int64_t>(i) + 1; row < rows_; row += 4)
        add_row(x, a, b, kRanks[i], row);
    }
    table_.upload(entries);
  }

  LoraJob job() const {
    return {.entries = table_.get(),
            .out = out_,
            .max_rank = kMaxRank,
            .y = {y_.get(), out_},
            .low = low_.get()};
  }
  double error() const { return relative_error(y_.download(), want_); }

 private:
  static constexpr float kScale = 0.5F;

  void add_row(
      const Floats& x, const Floats& a, const Floats& b, std::int64_t rank, std::int64_t row) {
    for (std::int64_t k = 0; k < rank; ++k) {
      double low = 0;
      for (std::int64_t col = 0; col < kGroupIn; ++col) {
        low += static_cast<double>(x[static_cast<std::size_t>(row * kGroupIn + col)]) *
               a[static_cast<std::size_t>(k * kGroupIn + col)];
      }
      for (std::int64_t col = 0; col < out_; ++col)
        want_[static_cast<std::size_t>(row * out_ + col)] +=
            kScale * low * b[static_cast<std::size_t>(k * out_ + col)];
    }
  }

  const void* upload(const Floats& values, LoraType type) {
    if (type == LoraType::F32)
      return floats_.emplace_back(std::make_unique<DeviceArray<float>>(values))->get();
    return halves_.emplace_back(std::make_unique<DeviceArray<std::uint16_t>>(codes(values, type)))
        ->get();
  }

  std::int64_t rows_;
  std::int64_t out_;
  std::vector<double> want_;
  DeviceArray<float> y_;
  DeviceArray<float> low_;
  DeviceArray<LoraEntry> table_;
  std::vector<std::unique_ptr<DeviceArray<float>>> floats_;
  std::vector<std::unique_ptr<DeviceArray<std::uint16_t>>> halves_;
};

// For a few rows (a block per component of the rank) and for many.
TEST_F(Lora, LayersOfOneInputShareLaunchesInEveryType) {
  for (const std::int64_t rows : {7, 100}) {
    Random random(5);
    const Floats x = random.floats(rows * kGroupIn);
    std::vector<std::int32_t> adapters;
    for (std::int64_t row = 0; row < rows; ++row)
      adapters.push_back(static_cast<std::int32_t>(row % 4) - 1);
    const DeviceArray<float> in(x);
    const DeviceArray<std::int32_t> by_row(adapters);
    LoraGroup group = {
        .adapters = by_row.get(), .rows = rows, .in = kGroupIn, .x = {in.get(), kGroupIn}};
    std::vector<std::unique_ptr<GroupedLayer>> layers;
    for (const std::int64_t out : {40, 700, 256}) {
      layers.push_back(std::make_unique<GroupedLayer>(x, out, random));
      group.jobs[group.num_jobs++] = layers.back()->job();
    }
    add_lora(group, nullptr);
    for (const auto& layer : layers)
      EXPECT_LE(layer->error(), 1e-5) << rows << " rows";
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
