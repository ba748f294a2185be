// What `graft machine` measures on a GPU.

#include "graft/ops/cuda/runtime/measure.h"

#include <chrono>
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/ops/cuda/runtime/runtime.h"

namespace graft::ops::cuda {
namespace {

class GpuSpeed : public ::testing::Test {
 protected:
  void SetUp() override {
    if (num_cuda_devices() > 0) return;
    const char* required = std::getenv("GRAFT_REQUIRE_GPU");
    if (required != nullptr && std::string_view(required) == "1") FAIL() << "no GPU";
    GTEST_SKIP() << "no GPU";
  }
};

void expect_plausible(const GpuMeasurement& got) {
  EXPECT_GT(got.read_bytes_per_s, 100e9);
  EXPECT_LT(got.read_bytes_per_s, 20e12);
  EXPECT_GT(got.flops, 1e12);
  EXPECT_LT(got.flops, 10e15);
  EXPECT_GT(got.launch_seconds, 0.3e-6);
  EXPECT_LT(got.launch_seconds, 50e-6);
  EXPECT_GT(got.pcie_bytes_per_s, 1e9);
  EXPECT_LT(got.pcie_bytes_per_s, 1e12);
  EXPECT_GT(got.pcie_back_bytes_per_s, 1e9);
  EXPECT_LT(got.pcie_back_bytes_per_s, 1e12);
}

TEST_F(GpuSpeed, IsPlausibleAndFast) {
  const auto start = std::chrono::steady_clock::now();
  expect_plausible(measure(0));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  // Less than 3 s on an idle GPU; other tests may run at the same time.
  EXPECT_LT(elapsed.count(), 10.0);
}

TEST_F(GpuSpeed, NeedsNoMoreThanOneGigabyteOfFreeMemory) {
  expect_plausible(measure_within(0, 1'000'000'000));
}

TEST_F(GpuSpeed, ReportsTooLittleMemory) {
  EXPECT_THROW(measure_within(0, 1'000'000), Error);
}

}  // namespace
}  // namespace graft::ops::cuda
