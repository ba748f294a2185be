#include "graft/tensor/tensor.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/tensor/buffer.h"
#include "graft/testing/shared_data.h"

namespace graft {
namespace {

TEST(TensorView, CountsRowsColumnsAndBytes) {
  std::vector<float> values(24);
  const TensorView cube(values.data(), DType::F32, {2, 3, 4});
  EXPECT_EQ(cube.rows(), 6);
  EXPECT_EQ(cube.cols(), 4);
  EXPECT_EQ(cube.num_elems(), 24);
  EXPECT_EQ(cube.bytes(), 96U);
  const TensorView line(values.data(), DType::F32, {24});
  EXPECT_EQ(line.rows(), 1);
  EXPECT_EQ(line.cols(), 24);
  const TensorView quantized(nullptr, DType::Q4_0, {5, 64});
  EXPECT_EQ(quantized.bytes(), 5U * 2 * 18);
  EXPECT_EQ(TensorView().num_elems(), 1);
}

TEST(TensorView, SlicesWholeRows) {
  std::vector<float> values(24);
  const TensorView matrix(values.data(), DType::F32, {6, 4});
  EXPECT_EQ(matrix.f32_row(2), values.data() + 8);
  const TensorView part = matrix.slice(2, 3);
  EXPECT_EQ(part.f32(), values.data() + 8);
  EXPECT_EQ(part.rows(), 3);
  EXPECT_EQ(part.cols(), 4);
  std::vector<std::uint8_t> blocks(5 * 36);
  const TensorView quantized(blocks.data(), DType::Q4_0, {5, 64});
  EXPECT_EQ(quantized.slice(3, 1).as<std::uint8_t>(), blocks.data() + 3 * 36);
}

TEST(Buffer, IsAlignedAndMoves) {
  Buffer buffer(1000);
  ASSERT_NE(buffer.data(), nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
  EXPECT_EQ(buffer.bytes().size(), 1000U);
  EXPECT_EQ(buffer.device(), kCpu);
  const std::byte* data = buffer.data();
  Buffer other(std::move(buffer));
  EXPECT_EQ(other.data(), data);
  Buffer third(10);
  third = std::move(other);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 1000U);
}

TEST(Buffer, ZeroBytesAreEmpty) {
  const Buffer buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0U);
}

TEST(Buffer, ThrowsWhenOutOfMemory) {
  if (kUnderSanitizers) GTEST_SKIP() << "sanitizers abort on a failed allocation";
  EXPECT_THROW(Buffer(std::size_t{1} << 60), Error);
}

TEST(Device, NamesRoundTrip) {
  EXPECT_EQ(to_string(kCpu), "cpu");
  EXPECT_EQ(to_string({.type = DeviceType::Cuda, .index = 3}), "cuda:3");
  EXPECT_EQ(device_from_name("cpu"), kCpu);
  EXPECT_EQ(device_from_name("cuda"), (Device{.type = DeviceType::Cuda, .index = 0}));
  EXPECT_EQ(device_from_name("cuda:12"), (Device{.type = DeviceType::Cuda, .index = 12}));
  for (const char* name :
       {"", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "npu", "cuda:99999999999"})
    EXPECT_FALSE(device_from_name(name)) << name;
}

}  // namespace
}  // namespace graft
