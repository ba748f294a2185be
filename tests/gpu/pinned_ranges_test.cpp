#include "graft/ops/cuda/runtime/pinned_ranges.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/virtual_gpus.h"

namespace graft::ops::cuda {
namespace {

// Two objects lock neighbours that share a page, as small experts of two layers do.
TEST(PinnedRanges, CopiesCrossTheBordersOfLockedMemory) {
  GRAFT_REQUIRE_GPU();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<std::byte> memory(9 * page);
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<std::byte>(i * 2654435761U >> 13U);
  const auto past = reinterpret_cast<std::uintptr_t>(memory.data()) % page;
  const std::byte* first = memory.data() + (page - past) % page;  // of a page
  PinnedRanges one;
  PinnedRanges two;
  PinnedRanges three;
  ASSERT_EQ(one.pin({{first, 2 * page + 100}}), "");
  ASSERT_EQ(two.pin({{first + 2 * page + 100, 2 * page}}), "");
  ASSERT_EQ(three.pin({{first + 4 * page + 100, 3 * page}}), "");
  const kernels::cuda::testing::DeviceArray<std::byte> gpu(7 * page);
  const CudaStream stream(0);
  for (const std::size_t begin : {std::size_t{10}, page + 7, 2 * page + 101}) {
    const std::size_t bytes = 7 * page - begin - 5;
    std::vector<std::byte> got(bytes);
    EXPECT_EQ(copy_to_gpu(gpu.get(), first + begin, bytes, stream.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(got.data(), gpu.get(), bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(got, std::vector<std::byte>(first + begin, first + begin + bytes)) << begin;
  }
}

}  // namespace
}  // namespace graft::ops::cuda
