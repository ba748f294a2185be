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

using Machine = std::vector<Processor>;

// Three nodes, of 2, 1 and 3 cores.
Machine uneven_machine() {
  Machine machine;
  for (int i = 0; i < 6; ++i)
    machine.push_back({.number = i, .core = i, .node = i < 2 ? 4 : i < 3 ? 0 : 7});
  return machine;
}

class ThreadPoolOn : public testing::TestWithParam<const char*> {
 protected:
  static Machine machine() { return described_processors(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Machines,
                         ThreadPoolOn,
                         testing::Values("numa:1 core:4 pu:1",
                                         "numa:2 core:2 pu:2",
                                         "numa:4 core:1 pu:1"));

TEST_P(ThreadPoolOn, RunsEveryItemOnce) {
  for (const std::size_t num_threads : {1U, 2U, 3U, 7U}) {
    ThreadPool pool(num_threads, {}, machine());
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const std::size_t num_items : {0U, 1U, 2U, 3U, 1000U}) {
      std::vector<std::atomic<int>> counts(num_items);
      pool.parallel_for(num_items, [&](std::size_t i) { ++counts[i]; });
      pool.parallel_for_local(num_items, [&](std::size_t i) { ++counts[i]; });
      for (const auto& count : counts)
        EXPECT_EQ(count, 2);
    }
  }
}

TEST_P(ThreadPoolOn, GivesCallsAtTheSameTimeDifferentWorkers) {
  ThreadPool pool(4, {}, machine());
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

TEST_P(ThreadPoolOn, WakesAfterSleeping) {
  ThreadPool pool(3, {}, machine());
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int i = 0; i < 400; ++i) {
      std::atomic<int> sum = 0;
      pool.parallel_for(5, [&](std::size_t item) { sum += static_cast<int>(item); });
      ASSERT_EQ(sum, 10);
    }
  }
}

TEST_P(ThreadPoolOn, RethrowsAndStaysUsable) {
  ThreadPool pool(3, {}, machine());
  for (const std::size_t bad : {0U, 5U, 99U}) {
    const auto throw_at_bad = [&](std::size_t i) {
      if (i == bad) throw std::runtime_error("bad");
    };
    EXPECT_THROW(pool.parallel_for(100, throw_at_bad), std::runtime_error);
    EXPECT_THROW(pool.parallel_for_local(100, throw_at_bad), std::runtime_error);
  }
  std::atomic<int> sum = 0;
  pool.parallel_for(10, [&](std::size_t i) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, CountsCoresByDefaultAndProcessorsOfAList) {
  EXPECT_GE(ThreadPool().num_threads(), 1U);
  const Machine machine = described_processors("numa:2 core:3 pu:2");
  EXPECT_EQ(ThreadPool(0, {}, machine).num_threads(), 6U);
  EXPECT_EQ(ThreadPool(0, {0, 1, 2, 3}, machine).num_threads(), 4U);
}

std::vector<std::size_t> share_sizes(const ThreadPool& pool, std::size_t num_items) {
  std::vector<std::size_t> sizes;
  std::size_t next = 0;
  for (std::size_t node = 0; node < pool.num_nodes(); ++node) {
    const auto [begin, end] = pool.share(node, num_items);
    EXPECT_EQ(begin, next);
    next = end;
    sizes.push_back(end - begin);
  }
  EXPECT_EQ(next, num_items);
  return sizes;
}

using Sizes = std::vector<std::size_t>;

TEST(ThreadPool, SharesAreInProportionToTheThreadsOfANode) {
  const Machine even = described_processors("numa:2 core:4 pu:2");
  EXPECT_EQ(share_sizes(ThreadPool(0, {}, even), 100), (Sizes{50, 50}));
  EXPECT_EQ(share_sizes(ThreadPool(0, {}, even), 3), (Sizes{1, 2}));
  EXPECT_EQ(share_sizes(ThreadPool(0, {}, even), 0), (Sizes{0, 0}));
  EXPECT_EQ(share_sizes(ThreadPool(1, {}, even), 10), (Sizes{10}));
  // By the numbers of the nodes.
  EXPECT_EQ(share_sizes(ThreadPool(0, {}, uneven_machine()), 60), (Sizes{10, 20, 30}));
  EXPECT_EQ(share_sizes(ThreadPool(12, {}, uneven_machine()), 60), (Sizes{10, 20, 30}));
  // Processors 0 to 7 are the first node's.
  EXPECT_EQ(share_sizes(ThreadPool(0, {0, 2, 4, 8}, even), 100), (Sizes{75, 25}));
  EXPECT_EQ(share_sizes(ThreadPool(0, {9, 11}, even), 100), (Sizes{100}));
}

TEST(ThreadPool, FewThreadsAreSpreadOverTheNodes) {
  const Machine even = described_processors("numa:2 core:4 pu:2");
  EXPECT_EQ(share_sizes(ThreadPool(2, {}, even), 100), (Sizes{50, 50}));
  EXPECT_EQ(share_sizes(ThreadPool(4, {}, even), 100), (Sizes{50, 50}));
  EXPECT_EQ(share_sizes(ThreadPool(3, {}, uneven_machine()), 90).size(), 3U);
}

// False when it did not become true for a long time.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(30)) return false;
    std::this_thread::yield();
  }
  return true;
}

// The first item ends when all others are done, so somebody else must do its neighbours.
TEST_P(ThreadPoolOn, ThreadsHelpEachOther) {
  ThreadPool pool(2, {}, machine());
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> num_done = 0;
    std::atomic<bool> helped = true;
    pool.parallel_for(100, [&](std::size_t item) {
      if (item == 0) helped = comes_true([&] { return num_done == 99; });
      ++num_done;
    });
    ASSERT_TRUE(helped);
  }
}

// The first item ends when the other thread begins: not with the second item, but with its part.
TEST_P(ThreadPoolOn, ThreadsBeginWithAPartOfTheirOwn) {
  ThreadPool pool(2, {}, machine());
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::size_t> first_of_other = 0;
    std::atomic<bool> came = true;
    pool.parallel_for(100, [&](std::size_t item) {
      std::size_t none = 0;
      if (item != 0) first_of_other.compare_exchange_strong(none, item);
      if (item == 0) came = comes_true([&] { return first_of_other != 0; });
    });
    ASSERT_TRUE(came);
    EXPECT_EQ(first_of_other, 50U);
  }
}

// However slow the first node is.
TEST(ThreadPool, AtHomeTheyDoNot) {
  ThreadPool pool(4, {}, described_processors("numa:2 core:2 pu:1"));
  std::vector<std::thread::id> by(100);
  pool.parallel_for_local(by.size(), [&](std::size_t item) {
    if (item < 50) std::this_thread::sleep_for(std::chrono::microseconds(200));
    by[item] = std::this_thread::get_id();
  });
  for (std::size_t i = 0; i < 50; ++i)
    EXPECT_EQ(std::find(by.begin() + 50, by.end(), by[i]), by.end()) << i;
}

// Nested, and again asleep afterwards: the work is the same.
TEST_P(ThreadPoolOn, StaysAwakeWhileAnotherDeviceWorks) {
  ThreadPool pool(3, {}, machine());
  const auto sum = [&] {
    std::atomic<int> total = 0;
    pool.parallel_for(100, [&](std::size_t item) { total += static_cast<int>(item); });
    return total.load();
  };
  {
    const ThreadPool::SpinScope outer(pool);
    const ThreadPool::SpinScope inner(pool);
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
