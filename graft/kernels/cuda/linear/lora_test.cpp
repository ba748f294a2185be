#include "graft/kernels/cuda/linear/lora.h"

#include <cstdint>
#include <memory>
#include <vector>

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
  add_lora({.entries = table.get(),
            .adapters = by_row.get(),
            .rows = rows,
            .heads = kHeads,
            .in = kIn,
            .out = kOut,
            .max_rank = 17},
           {in.get(), kHeads * kIn, kIn}, {out.get(), kHeads * kOut, kOut}, low.get(), nullptr);
  const Floats got = out.download();
  EXPECT_LE(relative_error(got, want), 1e-5);
  for (std::int64_t col = 0; col < kHeads * kOut; ++col) {
    for (const std::int64_t row : {1, 3}) {
      const auto at = static_cast<std::size_t>(row * kHeads * kOut + col);
      ASSERT_EQ(got[at], y[at]) << "row " << row << " has no adapter";
    }
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
