#include "graft/base/processors.h"

#include <thread>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/parallel.h"

namespace graft {
namespace {

TEST(Processors, AreThereAndCoresAreAmongThem) {
  const std::vector<int> processors = usable_processors();
  const std::vector<int> cores = usable_cores();
  ASSERT_FALSE(cores.empty());
  EXPECT_LE(cores.size(), processors.size());
  for (const int core : cores)
    EXPECT_NE(std::find(processors.begin(), processors.end(), core), processors.end());
}

TEST(Processors, ListsAreReadAsTheSystemWritesThem) {
  const int first = usable_processors().front();
  const std::string text = std::to_string(first);
  EXPECT_EQ(parse_processors(text), std::vector{first});
  EXPECT_EQ(parse_processors(text + "-" + text), std::vector{first});
  for (const std::string& bad :
       {std::string(), std::string("a"), std::string("1-"), std::string("-1"), std::string("3-1"),
        std::string("0,"), std::string("99999999999"), std::string("1023"), text + "," + text}) {
    EXPECT_THROW(parse_processors(bad), Error) << bad;
  }
}

TEST(Processors, APinnedPoolRunsOnItsProcessorsAlone) {
  const int first = usable_processors().front();
  // The caller is pinned too: not this thread.
  std::thread([&] {
    ThreadPool pool(0, {first});
    EXPECT_EQ(pool.num_threads(), 1U);
    pool.parallel_for(3, [&](std::size_t) { EXPECT_EQ(usable_processors(), std::vector{first}); });
    ThreadPool two(2, {first});
    EXPECT_EQ(two.num_threads(), 2U);
    two.parallel_for(10, [&](std::size_t) { EXPECT_EQ(usable_processors(), std::vector{first}); });
  }).join();
}

}  // namespace
}  // namespace graft
