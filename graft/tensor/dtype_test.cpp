#include "graft/tensor/dtype.h"

#include <set>

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(DType, EveryNameFindsItsRow) {
  for (const DTypeInfo& row : kDTypes) {
    EXPECT_EQ(dtype_from_name(row.name), row.type) << row.name;
    if (row.ggml_id >= 0) {
      EXPECT_EQ(dtype_from_ggml(static_cast<std::uint32_t>(row.ggml_id)), row.type) << row.name;
    }
    if (!row.safetensors.empty()) {
      EXPECT_EQ(dtype_from_safetensors(row.safetensors), row.type) << row.name;
    }
  }
  EXPECT_EQ(dtype_from_name("q4_k"), DType::Q4_K);
}

TEST(DType, UnknownNamesAndIdsAreNullopt) {
  EXPECT_FALSE(dtype_from_name("Q9_K"));
  EXPECT_FALSE(dtype_from_name(""));
  EXPECT_FALSE(dtype_from_ggml(4));  // Q4_2, removed from the format
  EXPECT_FALSE(dtype_from_ggml(0xffffffffU));
  EXPECT_FALSE(dtype_from_safetensors(""));
  EXPECT_FALSE(dtype_from_safetensors("f32"));
}

TEST(DType, GgmlIdsAreUnique) {
  std::set<int> ids;
  for (const DTypeInfo& row : kDTypes) {
    if (row.ggml_id >= 0) {
      EXPECT_TRUE(ids.insert(row.ggml_id).second) << row.name;
    }
  }
}

TEST(DType, BytesCountWholeBlocks) {
  EXPECT_EQ(bytes_of(DType::F32, 7), 28U);
  EXPECT_EQ(bytes_of(DType::Q4_K, 512), 288U);
  EXPECT_EQ(bytes_of(DType::MXFP4, 64), 34U);
}

}  // namespace
}  // namespace graft
