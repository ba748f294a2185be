#include "graft/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(ThreadPool, RunsEveryItemOnce) {
  for (const std::size_t num_threads : {1U, 2U, 7U}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const std::size_t num_items : {0U, 1U, 3U, 1000U}) {
      std::vector<std::atomic<int>> counts(num_items);
      pool.parallel_for(num_items, [&](std::size_t i) { ++counts[i]; });
      for (const auto& count : counts)
        EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, GivesCallsAtTheSameTimeDifferentWorkers) {
  ThreadPool pool(4);
  for (const std::size_t num_items : {2U, 3U, 200U}) {
    std::vector<std::atomic<int>> inside(std::min<std::size_t>(4, num_items));
    std::atomic<int> num_clashes = 0;
    pool.parallel_for(num_items, [&](std::size_t worker, std::size_t /*item*/) {
      if (inside.at(worker)++ != 0) ++num_clashes;
      --inside.at(worker);
    });
    EXPECT_EQ(num_clashes, 0);
  }
}

TEST(ThreadPool, WakesAfterSleeping) {
  ThreadPool pool(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int i = 0; i < 1000; ++i) {
      std::atomic<int> sum = 0;
      pool.parallel_for(5, [&](std::size_t item) { sum += static_cast<int>(item); });
      ASSERT_EQ(sum, 10);
    }
  }
}

TEST(ThreadPool, RethrowsAndStaysUsable) {
  ThreadPool pool(3);
  const auto throw_at_five = [](std::size_t i) {
    if (i == 5) throw std::runtime_error("five");
  };
  EXPECT_THROW(pool.parallel_for(100, throw_at_five), std::runtime_error);
  std::atomic<int> sum = 0;
  pool.parallel_for(10, [&](std::size_t i) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, CountsProcessorsByDefault) {
  EXPECT_GE(ThreadPool().num_threads(), 1U);
}

// Nested, and again asleep afterwards: the work is the same.
TEST(ThreadPool, StaysAwakeWhileAnotherDeviceWorks) {
  ThreadPool pool(3);
  const auto sum = [&] {
    std::atomic<int> total = 0;
    pool.parallel_for(100, [&](std::size_t item) { total += static_cast<int>(item); });
    return total.load();
  };
  {
    const ThreadPool::Awake outer(pool);
    const ThreadPool::Awake inner(pool);
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(sum(), 4950);
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(sum(), 4950);
}

}  // namespace
}  // namespace graft
