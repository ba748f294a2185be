// For tests: logits of placements that add the same values in another order.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/bf16_rounding.h"

namespace graft::models::testing {

// Max difference, relative to the max value; 1e30 if a difference is not finite.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double largest = 1e-30;
  double error = got.size() == want.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double difference = std::abs(double{got[i]} - double{want[i]});
    if (!std::isfinite(difference)) return 1e30;
    largest = std::max(largest, std::abs(double{want[i]}));
    error = std::max(error, difference);
  }
  return error / largest;
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  float largest = 0;
  float difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    difference = std::max(difference, std::abs(got[i] - want[i]));
    ASSERT_TRUE(std::isfinite(got[i]));
  }
  const float tolerance = rounds_to_bf16() ? 5e-3F : 2e-4F;
  EXPECT_LT(difference, tolerance * largest);
}

inline void expect_near(const std::vector<std::vector<float>>& got,
                        const std::vector<std::vector<float>>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(got[i], want[i]);
  }
}

}  // namespace graft::models::testing
