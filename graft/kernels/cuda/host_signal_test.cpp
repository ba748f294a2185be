#include "graft/kernels/cuda/host_signal.h"

#include <atomic>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

class HostSignalTest : public testing::GpuTest {};

// A counter travels to the host and back 100 times; the host increments it each time.
TEST_F(HostSignalTest, BothSidesSeeEachOthersWrites) {
  constexpr int kNumRounds = 100;
  std::uint32_t* flags = nullptr;
  int* host_counter = nullptr;
  ASSERT_EQ(cudaMallocHost(&flags, 256), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&host_counter, sizeof(int)), cudaSuccess);
  flags[0] = flags[32] = 0;
  *host_counter = 0;
  int* device_counter = nullptr;
  ASSERT_EQ(cudaMalloc(&device_counter, sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaMemset(device_counter, 0, sizeof(int)), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const HostSignal signal = {.ready = flags, .done = flags + 32};
  for (int i = 0; i < kNumRounds; ++i) {
    cudaMemcpyAsync(host_counter, device_counter, sizeof(int), cudaMemcpyDeviceToHost, stream);
    signal_host(signal, stream);
    wait_host(signal, stream);
    cudaMemcpyAsync(device_counter, host_counter, sizeof(int), cudaMemcpyHostToDevice, stream);
  }
  std::vector<int> seen;
  for (std::uint32_t i = 1; i <= kNumRounds; ++i) {
    while (std::atomic_ref(*signal.ready).load(std::memory_order_acquire) != i) {}
    seen.push_back(*host_counter);
    *host_counter += 1;
    std::atomic_ref(*signal.done).store(i, std::memory_order_release);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (int i = 0; i < kNumRounds; ++i)
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  cudaStreamDestroy(stream);
  cudaFree(device_counter);
  cudaFreeHost(host_counter);
  cudaFreeHost(flags);
}

}  // namespace
}  // namespace graft::kernels::cuda
