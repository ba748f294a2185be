#include "graft/testing/uniform_float.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(UniformFloat, EqualsTheStandardDistribution) {
  std::mt19937 engine(1);
  std::mt19937 standard_engine(1);
  for (int i = 0; i < 10000; ++i) {
    std::uniform_real_distribution<float> standard(-2.0F, 1.25F);
    ASSERT_EQ(uniform_float(engine, -2.0F, 1.25F), standard(standard_engine)) << i;
  }
}

}  // namespace
}  // namespace graft
