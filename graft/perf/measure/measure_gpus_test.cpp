#include "graft/perf/measure/measure_gpus.h"

#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::perf {
namespace {

GpuList two_gpus() {
  GpuList list;
  for (const std::string_view name : {"first", "second"}) {
    cuda_abi::DeviceProperties gpu = {};
    std::ranges::copy(name, gpu.name);
    gpu.total_bytes = 24ULL << 30U;
    list.gpus.push_back(gpu);
  }
  return list;
}

TEST(MeasureGpus, MeasuresEveryGpuInOrder) {
  const MeasuredGpus got = measure_gpus(two_gpus(), [](std::int32_t index) {
    return ops::GpuMeasurement{.read_bytes_per_s = 1e12 + index,
                               .flops = 1e14,
                               .launch_seconds = 1e-6,
                               .pcie_bytes_per_s = 25e9,
                               .pcie_back_bytes_per_s = 24e9};
  });
  EXPECT_EQ(got.error, "");
  ASSERT_EQ(got.gpus.size(), 2U);
  EXPECT_EQ(got.gpus[0].name, "first");
  EXPECT_EQ(got.gpus[1].name, "second");
  EXPECT_EQ(got.gpus[1].vram_bytes, 24ULL << 30U);
  EXPECT_EQ(got.gpus[1].read_bytes_per_s, 1e12 + 1);
  EXPECT_EQ(got.gpus[1].flops, 1e14);
  EXPECT_EQ(got.gpus[1].launch_seconds, 1e-6);
  EXPECT_EQ(got.gpus[1].pcie_bytes_per_s, 25e9);
  EXPECT_EQ(got.gpus[1].pcie_back_bytes_per_s, 24e9);
}

TEST(MeasureGpus, NoGpusNoError) {
  const GpuList none = {.gpus = {}, .unavailable = "no driver"};
  const MeasuredGpus got =
      measure_gpus(none, [](std::int32_t) -> ops::GpuMeasurement { fail("not called"); });
  EXPECT_TRUE(got.gpus.empty());
  EXPECT_EQ(got.error, "");
}

TEST(MeasureGpus, AnErrorDropsAllGpus) {
  const MeasuredGpus got = measure_gpus(two_gpus(), [](std::int32_t index) {
    if (index == 1) fail("out of memory");
    return ops::GpuMeasurement{};
  });
  EXPECT_TRUE(got.gpus.empty());
  EXPECT_EQ(got.error, "cuda:1: out of memory");
}

}  // namespace
}  // namespace graft::perf
