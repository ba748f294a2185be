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

using Machine = std::vector<LogicalCpu>;

// NUMA nodes 4, 0 and 7 with 2, 1 and 3 cores.
Machine uneven_machine() {
  Machine machine;
  for (int i = 0; i < 6; ++i)
    machine.push_back({.number = i, .core = i, .node = i < 2 ? 4 : i < 3 ? 0 : 7});
  return machine;
}

class ThreadPoolOn : public testing::TestWithParam<const char*> {
 protected:
  static Machine machine() { return synthetic_cpus(GetParam()); }
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

TEST_P(ThreadPoolOn, ConcurrentCallsHaveDifferentWorkers) {
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

TEST(ThreadPool, DefaultsToOneThreadPerCoreOrPerListedCpu) {
  EXPECT_GE(ThreadPool().num_threads(), 1U);
  const Machine machine = synthetic_cpus("numa:2 core:3 pu:2");
  EXPECT_EQ(ThreadPool(0, {}, machine).num_threads(), 6U);
  EXPECT_EQ(ThreadPool(0, {0, 1, 2, 3}, machine).num_threads(), 4U);
}

std::vector<std::size_t> node_range_sizes(const ThreadPool& pool, std::size_t num_items) {
  std::vector<std::size_t> sizes;
  std::size_t next = 0;
  for (std::size_t node = 0; node < pool.num_nodes(); ++node) {
    const auto [begin, end] = pool.node_range(node, num_items);
    EXPECT_EQ(begin, next);
    next = end;
    sizes.push_back(end - begin);
  }
  EXPECT_EQ(next, num_items);
  return sizes;
}

using Sizes = std::vector<std::size_t>;

TEST(ThreadPool, NodeRangesAreInProportionToTheThreadsOfTheNode) {
  const Machine even = synthetic_cpus("numa:2 core:4 pu:2");
  EXPECT_EQ(node_range_sizes(ThreadPool(0, {}, even), 100), (Sizes{50, 50}));
  EXPECT_EQ(node_range_sizes(ThreadPool(0, {}, even), 3), (Sizes{1, 2}));
  EXPECT_EQ(node_range_sizes(ThreadPool(0, {}, even), 0), (Sizes{0, 0}));
  EXPECT_EQ(node_range_sizes(ThreadPool(1, {}, even), 10), (Sizes{10}));
  // Nodes are ordered by their ids: 0, 4, 7.
  EXPECT_EQ(node_range_sizes(ThreadPool(0, {}, uneven_machine()), 60), (Sizes{10, 20, 30}));
  EXPECT_EQ(node_range_sizes(ThreadPool(12, {}, uneven_machine()), 60), (Sizes{10, 20, 30}));
  // CPUs 0 to 7 are on the first node.
  EXPECT_EQ(node_range_sizes(ThreadPool(0, {0, 2, 4, 8}, even), 100), (Sizes{75, 25}));
  EXPECT_EQ(node_range_sizes(ThreadPool(0, {9, 11}, even), 100), (Sizes{100}));
}

TEST(ThreadPool, FewThreadsAreSpreadOverTheNodes) {
  const Machine even = synthetic_cpus("numa:2 core:4 pu:2");
  EXPECT_EQ(node_range_sizes(ThreadPool(2, {}, even), 100), (Sizes{50, 50}));
  EXPECT_EQ(node_range_sizes(ThreadPool(4, {}, even), 100), (Sizes{50, 50}));
  EXPECT_EQ(node_range_sizes(ThreadPool(3, {}, uneven_machine()), 90).size(), 3U);
}

// Polls for up to 30 s; returns whether the condition became true.
template <class Condition>
bool wait_until(const Condition& condition) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(30)) return false;
    std::this_thread::yield();
  }
  return true;
}

// Item 0 waits for all others, so the other thread has to steal the rest of its range.
TEST_P(ThreadPoolOn, IdleThreadsSteal) {
  ThreadPool pool(2, {}, machine());
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> num_done = 0;
    std::atomic<bool> stolen = true;
    pool.parallel_for(100, [&](std::size_t item) {
      if (item == 0) stolen = wait_until([&] { return num_done == 99; });
      ++num_done;
    });
    ASSERT_TRUE(stolen);
  }
}

// Item 0 waits until the other thread starts: with the first item of its own range, not with
// item 1.
TEST_P(ThreadPoolOn, ThreadsStartWithTheirOwnRange) {
  ThreadPool pool(2, {}, machine());
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::size_t> first_of_other = 0;
    std::atomic<bool> started = true;
    pool.parallel_for(100, [&](std::size_t item) {
      std::size_t none = 0;
      if (item != 0) first_of_other.compare_exchange_strong(none, item);
      if (item == 0) started = wait_until([&] { return first_of_other != 0; });
    });
    ASSERT_TRUE(started);
    EXPECT_EQ(first_of_other, 50U);
  }
}

// The first node is slow, and the threads of the second still leave its items alone.
TEST(ThreadPool, LocalLoopsDoNotStealAcrossNodes) {
  ThreadPool pool(4, {}, synthetic_cpus("numa:2 core:2 pu:1"));
  std::vector<std::thread::id> by(100);
  pool.parallel_for_local(by.size(), [&](std::size_t item) {
    if (item < 50) std::this_thread::sleep_for(std::chrono::microseconds(200));
    by[item] = std::this_thread::get_id();
  });
  for (std::size_t i = 0; i < 50; ++i)
    EXPECT_EQ(std::find(by.begin() + 50, by.end(), by[i]), by.end()) << i;
}

// Nested scopes, with pauses longer than the spin time inside and after them.
TEST_P(ThreadPoolOn, RunsInsideAndAfterSpinScopes) {
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
