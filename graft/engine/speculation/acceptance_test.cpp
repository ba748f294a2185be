#include "graft/engine/speculation/acceptance.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace graft::engine {
namespace {

Acceptance acceptance_of(std::int64_t num_accepted, std::int64_t num_compared, int num_steps = 60) {
  Acceptance acceptance;
  for (int i = 0; i < num_steps; ++i)
    acceptance.record(num_accepted, num_compared);
  return acceptance;
}

// Steps of `seconds` and `per_row` more for each row after the first.
StepTimes times_of(double seconds, double per_row) {
  StepTimes times;
  for (int i = 0; i < 20; ++i) {
    for (const std::int64_t num_rows : {1, 1, 1, 6})
      times.record(num_rows, seconds + per_row * static_cast<double>(num_rows - 1));
  }
  return times;
}

TEST(Acceptance, IsTheShareOfGuessesThatFollowRightOnes) {
  EXPECT_NEAR(acceptance_of(5, 5).rate(), 1, 0.01);
  EXPECT_NEAR(acceptance_of(0, 5).rate(), 0, 0.01);
  // Three right ones for each wrong one; the fifth is not known.
  EXPECT_NEAR(acceptance_of(3, 5).rate(), 0.75, 0.1);
  EXPECT_NEAR(acceptance_of(1, 1).coverage(), 1, 0.05);
  EXPECT_EQ(acceptance_of(0, 0).coverage(), 0);
  EXPECT_NEAR(acceptance_of(5, 5).expected(4), 4, 0.05);
}

TEST(StepTimes, AreALineThroughTheSteps) {
  const StepTimes times = times_of(0.010, 0.002);
  EXPECT_NEAR(*times.seconds(1), 0.010, 1e-9);
  EXPECT_NEAR(*times.seconds(6), 0.020, 1e-9);
  EXPECT_NEAR(*times.seconds_per_row(), 0.002, 1e-9);
}

TEST(StepTimes, AreUnknownWithoutStepsOfTwoSizes) {
  StepTimes times;
  EXPECT_FALSE(times.seconds(1));
  for (int i = 0; i < 10; ++i)
    times.record(1, 0.01);
  EXPECT_FALSE(times.seconds(1));
  EXPECT_FALSE(worthwhile_tokens(acceptance_of(5, 5), times, 1, 5));
}

TEST(StepTimes, AnInterruptedStepCountsLittle) {
  StepTimes times = times_of(0.010, 0.002);
  times.record(6, 30);
  EXPECT_LT(*times.seconds(6), 0.030);
}

TEST(WorthwhileTokens, AreThoseThatRaiseTokensPerSecond) {
  // Rows cost nothing: all. Rows cost as much as a step: none.
  EXPECT_EQ(worthwhile_tokens(acceptance_of(5, 5), times_of(0.01, 0), 1, 5), 5);
  EXPECT_EQ(worthwhile_tokens(acceptance_of(0, 5), times_of(0.01, 0.0001), 1, 5), 0);
  EXPECT_EQ(worthwhile_tokens(acceptance_of(5, 5), times_of(0.01, 0.01), 1, 5), 0);
  // 0.75, 0.56 and 0.42 are more than 1.1 * 0.3, 0.32 is less.
  EXPECT_EQ(worthwhile_tokens(acceptance_of(3, 4, 1000), times_of(0.01, 0.003), 1, 5), 3);
  // In a large batch a row takes a larger share of the time that a token takes.
  EXPECT_EQ(worthwhile_tokens(acceptance_of(3, 4, 1000), times_of(0.01, 0.003), 32, 5), 0);
}

}  // namespace
}  // namespace graft::engine
