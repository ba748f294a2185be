#include "graft/base/system/processors.h"

#include <algorithm>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/parallel.h"

namespace graft {
namespace {

std::vector<int> usable_numbers() {
  std::vector<int> numbers;
  for (const Processor& processor : usable_processors())
    numbers.push_back(processor.number);
  return numbers;
}

TEST(Processors, AreThereAndCoresAreAmongThem) {
  const std::vector<Processor> processors = usable_processors();
  const std::vector<Processor> cores = one_per_core(processors);
  ASSERT_FALSE(cores.empty());
  EXPECT_LE(cores.size(), processors.size());
  for (const Processor& core : cores)
    EXPECT_NE(std::ranges::find(processors, core), processors.end());
  EXPECT_GE(num_nodes(processors), 1U);
  EXPECT_TRUE(std::ranges::is_sorted(processors, {}, &Processor::number));
}

TEST(Processors, OfDescribedMachinesHaveCoresAndNodes) {
  const std::vector<Processor> processors = described_processors("numa:2 core:4 pu:2");
  ASSERT_EQ(processors.size(), 16U);
  EXPECT_EQ(num_nodes(processors), 2U);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(processors[static_cast<std::size_t>(i)],
              (Processor{.number = i, .core = i / 2, .node = i / 8}));
  }
  const std::vector<Processor> cores = one_per_core(processors);
  ASSERT_EQ(cores.size(), 8U);
  EXPECT_EQ(cores[3], (Processor{.number = 6, .core = 3, .node = 0}));
  EXPECT_THROW(described_processors("two of them"), Error);
}

TEST(Processors, ListsAreReadAsTheSystemWritesThem) {
  const int first = usable_numbers().front();
  const std::string text = std::to_string(first);
  EXPECT_EQ(parse_processors(text), std::vector{first});
  EXPECT_EQ(parse_processors(text + "-" + text), std::vector{first});
  for (const std::string& bad :
       {std::string(), std::string("a"), std::string("1-"), std::string("-1"), std::string("3-1"),
        std::string("0,"), std::string("99999999999"), std::string("65535"), text + "," + text}) {
    EXPECT_THROW(parse_processors(bad), Error) << bad;
  }
}

TEST(Processors, APinnedPoolRunsOnItsProcessorsAlone) {
  const int first = usable_numbers().front();
  // The caller is pinned too: not this thread.
  std::thread([&] {
    ThreadPool pool(0, {first});
    EXPECT_EQ(pool.num_threads(), 1U);
    pool.parallel_for(3, [&](std::size_t) { EXPECT_EQ(usable_numbers(), std::vector{first}); });
    ThreadPool two(2, {first});
    EXPECT_EQ(two.num_threads(), 2U);
    two.parallel_for(10, [&](std::size_t) { EXPECT_EQ(usable_numbers(), std::vector{first}); });
  }).join();
}

// Two nodes that share this machine's processors out between them.
TEST(Processors, ThreadsStayOnTheirNodeAndCallersWhereTheyWere) {
  std::vector<Processor> machine = usable_processors();
  if (machine.size() < 2) GTEST_SKIP() << "one processor";
  std::vector<std::vector<int>> numbers(2);
  for (std::size_t i = 0; i < machine.size(); ++i) {
    machine[i].core = static_cast<int>(i);
    machine[i].node = static_cast<int>(i % 2);
    numbers[i % 2].push_back(machine[i].number);
  }
  const std::vector<int> before = usable_numbers();
  ThreadPool pool(4, {}, machine);
  ASSERT_EQ(pool.num_nodes(), 2U);
  const auto caller = std::this_thread::get_id();
  pool.parallel_for_local(64, [&](std::size_t item) {
    const bool is_caller = std::this_thread::get_id() == caller;
    EXPECT_EQ(usable_numbers(), is_caller ? before : numbers[item / 32]);
  });
  EXPECT_EQ(usable_numbers(), before);
}

}  // namespace
}  // namespace graft
