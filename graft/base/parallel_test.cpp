#include "graft/base/parallel.h"

#include <atomic>
#include <stdexcept>
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

}  // namespace
}  // namespace graft
