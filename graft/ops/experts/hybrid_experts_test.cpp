#include "graft/ops/experts/hybrid_experts.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace graft::ops {
namespace {

using Rows = std::vector<std::int64_t>;

std::int64_t count(const ExpertMask& mask) {
  return std::accumulate(mask.begin(), mask.end(), std::int64_t{0});
}

TEST(SplitByCost, LeavesShortPassesToTheCpu) {
  // One row each: the CPU reads an expert faster than it crosses.
  const Rows rows = {1, 0, 0, 0};
  EXPECT_EQ(split_by_cost(rows, ExpertMask(4, 0), 32), (ExpertMask{0, 0, 0, 0}));
}

TEST(SplitByCost, CopiesTheExpertsWithTheMostRows) {
  const Rows rows = {1, 90, 2, 80};
  EXPECT_EQ(split_by_cost(rows, ExpertMask(4, 0), 32), (ExpertMask{0, 1, 0, 1}));
}

TEST(SplitByCost, BalancesCopiesAndCpu) {
  // The CPU takes as long for an expert as its copy: half each.
  const Rows rows(64, 32);
  EXPECT_EQ(count(split_by_cost(rows, ExpertMask(64, 0), 32)), 32);
  // It takes three times as long: k = 3 (64 - k).
  EXPECT_EQ(count(split_by_cost(Rows(64, 96), ExpertMask(64, 0), 32)), 48);
}

TEST(SplitByCost, CopiesAllExpertsOfLongPasses) {
  EXPECT_EQ(count(split_by_cost(Rows(64, 2000), ExpertMask(64, 0), 32)), 64);
}

TEST(SplitByCost, KeepsResidentsOnTheGpuAtNoCost) {
  const Rows rows(64, 32);
  ExpertMask is_resident(64, 0);
  for (std::size_t e = 0; e < 32; ++e)
    is_resident[e] = 1;
  const ExpertMask on_gpu = split_by_cost(rows, is_resident, 32);
  EXPECT_EQ(count(on_gpu), 32 + 16);
  for (std::size_t e = 0; e < 32; ++e)
    EXPECT_EQ(on_gpu[e], 1);
}

TEST(SplitByCost, CopiesAllWhenASingleRowCostsMoreThanACopy) {
  EXPECT_EQ(count(split_by_cost(Rows(8, 1), ExpertMask(8, 0), 0.5)), 8);
}

TEST(SplitByCost, SkipsUnusedExperts) {
  EXPECT_EQ(count(split_by_cost(Rows(8, 0), ExpertMask(8, 0), 32)), 0);
}

}  // namespace
}  // namespace graft::ops
