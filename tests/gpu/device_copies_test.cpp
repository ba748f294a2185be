// Copies between GPUs go through staging memory of the source.

#include <cstdint>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/registry.h"
#include "graft/tensor/tensor.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/virtual_gpus.h"

namespace graft::ops::cuda {
namespace {

class DeviceCopies : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ops::testing::use_virtual_gpus(); }
  void SetUp() override { GRAFT_REQUIRE_GPU(); }
};

// The destination is busy, so that it reads what was staged first after the source has copied
// again.
TEST_F(DeviceCopies, FollowEachOtherToABusyDevice) {
  Registry registry = builtin_operators();
  register_cuda(registry);
  PassDevices devices(registry);
  const Device source = {.type = DeviceType::Cuda, .index = 0};
  const Device destination = {.type = DeviceType::Cuda, .index = 1};
  auto& busy = dynamic_cast<CudaContext&>(devices.at(destination));
  constexpr std::int64_t kCount = 1000;
  constexpr int kCopies = 4;
  std::vector<TensorView> from;
  std::vector<TensorView> to;
  for (int i = 0; i < kCopies; ++i) {
    const std::vector<float> values(kCount, static_cast<float>(i + 1));
    from.push_back(devices.at(source).workspace().f32({1, kCount}));
    to.push_back(busy.workspace().f32({1, kCount}));
    copy_in_order(source.index, from.back().data, values.data(), from.back().bytes(),
                  cudaMemcpyHostToDevice);
  }
  const kernels::cuda::testing::DeviceArray<std::byte> load(std::size_t{256} << 20U);
  for (int i = 0; i < 50; ++i)
    check_cuda(cudaMemsetAsync(load.get(), i, std::size_t{256} << 20U, busy.stream()), "memset");
  for (std::size_t i = 0; i < kCopies; ++i)
    devices.copy(from[i], to[i]);
  for (std::size_t i = 0; i < kCopies; ++i) {
    std::vector<float> got(kCount);
    copy_in_order(destination.index, got.data(), to[i].data, to[i].bytes(), cudaMemcpyDeviceToHost);
    EXPECT_EQ(got, std::vector<float>(kCount, static_cast<float>(i + 1))) << i;
  }
}

}  // namespace
}  // namespace graft::ops::cuda
