#include "graft/kernels/cuda/measure.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Random;

class MeasureKernels : public testing::GpuTest {};

// Sizes around a tile of 1,024 vectors, and one that needs several tiles per block.
TEST_F(MeasureKernels, ReadEveryWordOnce) {
  Random random(1);
  for (const std::size_t vectors : {1U, 255U, 1024U, 1025U, 5'000'003U}) {
    std::vector<std::uint32_t> words(vectors * 4);
    std::uint32_t want = 0;
    for (std::uint32_t& word : words) {
      word = static_cast<std::uint32_t>(random.engine()());
      want ^= word;
    }
    const DeviceArray<std::uint32_t> data(words);
    const DeviceArray<std::uint32_t> result(std::vector<std::uint32_t>{0});
    xor_words(data.get(), data.bytes(), result.get(), nullptr);
    EXPECT_EQ(result.download()[0], want) << vectors;
  }
}

TEST_F(MeasureKernels, FillWithDifferentFiniteValues) {
  const DeviceArray<Half> data(4'000'002);
  fill_random_f16(data.get(), static_cast<std::int64_t>(data.size()), nullptr);
  double sum = 0;
  for (const Half code : data.download()) {
    const float value = testing::f16_value(code);
    ASSERT_GE(std::abs(value), 0.5F);
    ASSERT_LT(std::abs(value), 1.0F);
    sum += value;
  }
  // Both signs are equally likely.
  EXPECT_LT(std::abs(sum / static_cast<double>(data.size())), 0.01);
}

}  // namespace
}  // namespace graft::kernels::cuda
