#include "graft/kernels/cuda/host_signal.h"

#include <atomic>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

class MeetingTest : public testing::GpuTest {};

// A number goes to the processor and back a hundred times, larger by one each time the processor
// has it.
TEST_F(MeetingTest, BothSeeWhatTheOtherWrote) {
  constexpr int kTimes = 100;
  std::uint32_t* flags = nullptr;
  int* number = nullptr;
  ASSERT_EQ(cudaMallocHost(&flags, 256), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&number, sizeof(int)), cudaSuccess);
  flags[0] = flags[32] = 0;
  *number = 0;
  int* there = nullptr;
  ASSERT_EQ(cudaMalloc(&there, sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaMemset(there, 0, sizeof(int)), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const HostSignal meeting = {.ready = flags, .done = flags + 32};
  for (int i = 0; i < kTimes; ++i) {
    cudaMemcpyAsync(number, there, sizeof(int), cudaMemcpyDeviceToHost, stream);
    arrive(meeting, stream);
    await(meeting, stream);
    cudaMemcpyAsync(there, number, sizeof(int), cudaMemcpyHostToDevice, stream);
  }
  std::vector<int> seen;
  for (std::uint32_t i = 1; i <= kTimes; ++i) {
    while (std::atomic_ref(*meeting.ready).load(std::memory_order_acquire) != i) {}
    seen.push_back(*number);
    *number += 1;
    std::atomic_ref(*meeting.done).store(i, std::memory_order_release);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (int i = 0; i < kTimes; ++i)
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  cudaStreamDestroy(stream);
  cudaFree(there);
  cudaFreeHost(number);
  cudaFreeHost(flags);
}

}  // namespace
}  // namespace graft::kernels::cuda
