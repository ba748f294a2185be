#include "graft/engine/tiers/block_memory.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "graft/tensor/device_memory.h"
#include "graft/testing/device_memory.h"

namespace graft::engine {
namespace {

constexpr Device kTestGpu = {.type = DeviceType::Cuda, .index = 0};
constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;

void wait_until_ready(const BlockMemory& memory) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (memory.num_ready() == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_GT(memory.num_ready(), 0);
}

TEST(BlockMemoryTest, TheCpuNeedsNoLockedMemory) {
  BlockMemory memory(kBlockBytes, kCpu);
  EXPECT_GT(memory.num_ready(), 1'000'000);
  EXPECT_EQ(memory.allocate(kBlockBytes).size(), kBlockBytes);
  EXPECT_EQ(memory.allocate(7).size(), 7U);
}

TEST(BlockMemoryTest, UsesLockedPiecesAgain) {
  set_device_memory(DeviceType::Cuda, &ops::testing::test_memory());
  BlockMemory memory(kBlockBytes, kTestGpu);
  wait_until_ready(memory);
  const std::byte* place = nullptr;
  {
    EntryBytes first = memory.allocate(kBlockBytes);
    std::ranges::fill(first.bytes(), std::byte{1});
    place = first.data();
    const EntryBytes second = memory.allocate(kBlockBytes);
    EXPECT_NE(second.data(), place);
  }
  std::vector<EntryBytes> all;
  while (memory.num_ready() > 0 && all.size() < 2000)
    all.push_back(memory.allocate(kBlockBytes));
  EXPECT_TRUE(
      std::ranges::any_of(all, [&](const EntryBytes& bytes) { return bytes.data() == place; }));
}

TEST(BlockMemoryTest, PiecesOutliveIt) {
  set_device_memory(DeviceType::Cuda, &ops::testing::test_memory());
  std::optional<BlockMemory> memory(std::in_place, kBlockBytes, kTestGpu);
  wait_until_ready(*memory);
  EntryBytes bytes = memory->allocate(kBlockBytes);
  memory.reset();
  std::ranges::fill(bytes.bytes(), std::byte{2});
  EXPECT_EQ(bytes.bytes().back(), std::byte{2});
}

}  // namespace
}  // namespace graft::engine
