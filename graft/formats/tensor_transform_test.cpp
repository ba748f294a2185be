#include "graft/formats/tensor_transform.h"

#include <vector>

#include <gtest/gtest.h>

namespace graft::formats {
namespace {

TEST(TensorTransform, RopeRowsRoundTrip) {
  // One head of 6 rows: halves 0 1 2 | 3 4 5 become pairs 0 3 | 1 4 | 2 5.
  const std::vector<std::int64_t> halves = {0, 3, 1, 4, 2, 5};
  for (std::int64_t row = 0; row < 12; ++row) {
    EXPECT_EQ(rope_halves_row(row, 6), row / 6 * 6 + halves[static_cast<std::size_t>(row % 6)]);
    EXPECT_EQ(rope_pairs_row(rope_halves_row(row, 6), 6), row);
  }
}

TEST(TensorTransform, SplitsFusedRowsOfTwoExperts) {
  for (std::int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(fused_row(TensorTransform::FirstHalf, row, 3), row / 3 * 6 + row % 3);
    EXPECT_EQ(fused_row(TensorTransform::SecondHalf, row, 3), row / 3 * 6 + 3 + row % 3);
  }
}

TEST(TensorTransform, SlicesOneHalfOfOneExpert) {
  const std::vector<std::byte> bytes(24);
  const TensorInfo tensor{.name = "t", .dtype = DType::F32, .shape = {3, 2, 1}, .data = bytes};
  const TensorSlice slice = slice_of(tensor, TensorTransform::SecondHalf, 1);
  EXPECT_EQ(slice.shape, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(slice.data.data(), bytes.data() + 12);
  EXPECT_EQ(slice.data.size(), 4U);
  EXPECT_TRUE(has_expert(tensor, 2));
  EXPECT_FALSE(has_expert(tensor, 3));
}

TEST(TensorTransform, Transposes) {
  const std::vector<float> in = {1, 2, 3, 4, 5, 6};
  std::vector<float> out(6);
  transpose(in.data(), 2, 3, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

}  // namespace
}  // namespace graft::formats
