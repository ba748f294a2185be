#include "graft/base/system/cpus.h"

#include <algorithm>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/parallel.h"

namespace graft {
namespace {

std::vector<int> usable_ids() {
  std::vector<int> ids;
  for (const LogicalCpu& cpu : usable_cpus())
    ids.push_back(cpu.number);
  return ids;
}

TEST(Cpus, AreSortedAndIncludeOnePerCore) {
  const std::vector<LogicalCpu> cpus = usable_cpus();
  const std::vector<LogicalCpu> cores = one_per_core(cpus);
  ASSERT_FALSE(cores.empty());
  EXPECT_LE(cores.size(), cpus.size());
  for (const LogicalCpu& core : cores)
    EXPECT_NE(std::ranges::find(cpus, core), cpus.end());
  EXPECT_GE(num_numa_nodes(cpus), 1U);
  EXPECT_TRUE(std::ranges::is_sorted(cpus, {}, &LogicalCpu::number));
}

TEST(Cpus, SyntheticTopologiesHaveCoresAndNodes) {
  const std::vector<LogicalCpu> cpus = synthetic_cpus("numa:2 core:4 pu:2");
  ASSERT_EQ(cpus.size(), 16U);
  EXPECT_EQ(num_numa_nodes(cpus), 2U);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(cpus[static_cast<std::size_t>(i)],
              (LogicalCpu{.number = i, .core = i / 2, .node = i / 8}));
  }
  const std::vector<LogicalCpu> cores = one_per_core(cpus);
  ASSERT_EQ(cores.size(), 8U);
  EXPECT_EQ(cores[3], (LogicalCpu{.number = 6, .core = 3, .node = 0}));
  EXPECT_THROW(synthetic_cpus("not a topology"), Error);
}

TEST(Cpus, ParsesLinuxCpuLists) {
  const int first = usable_ids().front();
  const std::string text = std::to_string(first);
  EXPECT_EQ(parse_cpu_list(text), std::vector{first});
  EXPECT_EQ(parse_cpu_list(text + "-" + text), std::vector{first});
  for (const std::string& bad :
       {std::string(), std::string("a"), std::string("1-"), std::string("-1"), std::string("3-1"),
        std::string("0,"), std::string("99999999999"), std::string("65535"), text + "," + text}) {
    EXPECT_THROW(parse_cpu_list(bad), Error) << bad;
  }
}

TEST(Cpus, APinnedPoolRunsOnlyOnItsCpus) {
  const int first = usable_ids().front();
  // The caller is pinned too, so use a thread that ends with the test.
  std::thread([&] {
    ThreadPool pool(0, {first});
    EXPECT_EQ(pool.num_threads(), 1U);
    pool.parallel_for(3, [&](std::size_t) { EXPECT_EQ(usable_ids(), std::vector{first}); });
    ThreadPool two(2, {first});
    EXPECT_EQ(two.num_threads(), 2U);
    two.parallel_for(10, [&](std::size_t) { EXPECT_EQ(usable_ids(), std::vector{first}); });
  }).join();
}

// This machine's CPUs as two fake NUMA nodes.
TEST(Cpus, WorkersAreBoundToTheirNodeAndCallersKeepTheirAffinity) {
  std::vector<LogicalCpu> machine = usable_cpus();
  if (machine.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::vector<std::vector<int>> node_ids(2);
  for (std::size_t i = 0; i < machine.size(); ++i) {
    machine[i].core = static_cast<int>(i);
    machine[i].node = static_cast<int>(i % 2);
    node_ids[i % 2].push_back(machine[i].number);
  }
  const std::vector<int> before = usable_ids();
  ThreadPool pool(4, {}, machine);
  ASSERT_EQ(pool.num_nodes(), 2U);
  const auto caller = std::this_thread::get_id();
  pool.parallel_for_local(64, [&](std::size_t item) {
    const bool is_caller = std::this_thread::get_id() == caller;
    EXPECT_EQ(usable_ids(), is_caller ? before : node_ids[item / 32]);
  });
  EXPECT_EQ(usable_ids(), before);
}

}  // namespace
}  // namespace graft
