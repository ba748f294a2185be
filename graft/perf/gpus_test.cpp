#include "graft/perf/gpus.h"

#include <gtest/gtest.h>

namespace graft::perf {
namespace {

TEST(Gpus, PublishedFiguresAreFoundByTheNameOfTheDriver) {
  const auto gpu = published_gpu("NVIDIA H200", 150'000'000'000);
  ASSERT_TRUE(gpu.has_value());
  EXPECT_EQ(gpu->name, "NVIDIA H200");
  EXPECT_EQ(gpu->vram_bytes, 150'000'000'000U);
  EXPECT_EQ(gpu->read_bytes_per_s, 4800e9);
  EXPECT_EQ(published_gpu("NVIDIA GeForce RTX 4090", 1)->read_bytes_per_s, 1008e9);
}

TEST(Gpus, SpecificNamesWin) {
  EXPECT_LT(published_gpu("NVIDIA H100 PCIe", 1)->flops,
            published_gpu("NVIDIA H100 80GB HBM3", 1)->flops);
  EXPECT_GT(published_gpu("NVIDIA L40S", 1)->flops, published_gpu("NVIDIA L4", 1)->flops);
}

TEST(Gpus, UnknownNamesHaveNone) {
  EXPECT_FALSE(published_gpu("Voodoo 2", 1).has_value());
}

}  // namespace
}  // namespace graft::perf
