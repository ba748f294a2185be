#include "graft/formats/block_scales.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/quant/codec.h"
#include "graft/testing/formats.h"

namespace graft::formats {
namespace {

using test::error_of;

const TensorInfo* named(const std::vector<TensorInfo>& tensors, const std::string& name) {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(BlockScales, ReadsFp4AsMxfp4) {
  std::vector<std::byte> codes(64);  // two rows of two blocks
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::byte>(i * 37 + 11);
  const std::vector<std::byte> scales = {std::byte{127}, std::byte{120}, std::byte{128},
                                         std::byte{0}};
  const std::vector<TensorInfo> stored = {
      {.name = "e.w1.weight", .dtype = DType::I8, .shape = {2, 32}, .data = codes},
      {.name = "e.w1.scale", .dtype = DType::U8, .shape = {2, 2}, .data = scales}};
  const std::vector<TensorInfo> combined = combine_block_scales(stored, "test");
  ASSERT_EQ(combined.size(), 1U);
  EXPECT_EQ(combined[0].name, "e.w1.weight");
  EXPECT_EQ(combined[0].dtype, DType::MXFP4);
  EXPECT_EQ(combined[0].shape, (std::vector<std::int64_t>{2, 64}));
  std::vector<std::byte> row(bytes_of(DType::MXFP4, 64));
  combined[0].row_source->read(1, 1, row.data());
  std::vector<float> values(64);
  quant::reference_codecs()[static_cast<std::size_t>(DType::MXFP4)].decode(row.data(),
                                                                           values.data(), 64);
  const float magnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  for (std::size_t i = 0; i < 32; ++i) {
    const auto byte = std::to_integer<unsigned>(codes[32 + i / 2]);
    const unsigned code = i % 2 == 0 ? byte & 15U : byte >> 4U;
    EXPECT_EQ(values[i], (code >= 8 ? -2.0F : 2.0F) * magnitudes[code % 8]) << i;
  }
}

TEST(BlockScales, NamesTheScalesOfFp8AsOtherCheckpoints) {
  const std::vector<std::byte> bytes(16);
  const std::vector<TensorInfo> stored = {
      {.name = "a.weight", .dtype = DType::F8_E4M3, .shape = {4, 4}, .data = bytes},
      {.name = "a.scale", .dtype = DType::U8, .shape = {1, 1}, .data = {bytes.data(), 1}},
      {.name = "b.scale", .dtype = DType::F32, .shape = {4}, .data = bytes}};
  const std::vector<TensorInfo> combined = combine_block_scales(stored, "test");
  ASSERT_EQ(combined.size(), 3U);
  EXPECT_NE(named(combined, "a.weight_scale_inv"), nullptr);
  EXPECT_NE(named(combined, "b.scale"), nullptr);
}

TEST(BlockScales, LeavesOtherCheckpointsAlone) {
  const std::vector<std::byte> bytes(16);
  const std::vector<TensorInfo> stored = {
      {.name = "a.weight", .dtype = DType::F32, .shape = {4}, .data = bytes},
      {.name = "a.scale", .dtype = DType::F32, .shape = {4}, .data = bytes}};
  EXPECT_TRUE(combine_block_scales(stored, "test").empty());
}

TEST(BlockScales, RefusesShapesThatDoNotFit) {
  const std::vector<std::byte> bytes(64);
  const std::vector<TensorInfo> stored = {
      {.name = "a.weight", .dtype = DType::I8, .shape = {2, 32}, .data = bytes},
      {.name = "a.scale", .dtype = DType::U8, .shape = {2, 3}, .data = {bytes.data(), 6}}};
  EXPECT_EQ(error_of([&] { combine_block_scales(stored, "test"); }),
            "test: a.weight: FP4 codes [2, 32] with scales [2, 3], expected [rows, cols / 2] and "
            "[rows, cols / 32]");
}

}  // namespace
}  // namespace graft::formats
