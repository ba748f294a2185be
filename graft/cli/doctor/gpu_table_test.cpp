#include "graft/cli/doctor/gpu_table.h"

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

TEST(GpuTable, HasARowPerGpu) {
  const perf::GpuFigures gpu = {.name = "NVIDIA H200",
                                .vram_bytes = 140ULL << 30U,
                                .read_bytes_per_s = 4321e9,
                                .flops = 712.34e12,
                                .pcie_bytes_per_s = 55.1e9,
                                .pcie_back_bytes_per_s = 52.6e9,
                                .launch_seconds = 1.234e-6};
  EXPECT_EQ(
      gpu_table({gpu, gpu}),
      "gpu        name            memory  read GB/s    TFLOP/s  launch us   H2D GB/s   D2H GB/s\n"
      "cuda:0     NVIDIA H200  140.0 GiB     4321.0      712.3       1.23       55.1       52.6\n"
      "cuda:1     NVIDIA H200  140.0 GiB     4321.0      712.3       1.23       55.1       52.6\n");
}

TEST(GpuTable, IsEmptyWithoutGpus) {
  EXPECT_EQ(gpu_table({}), "");
}

}  // namespace
}  // namespace graft::cli
