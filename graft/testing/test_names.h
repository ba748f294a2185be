// For parameterized tests: the names of their parameters.

#pragma once

#include <string>

#include <gtest/gtest.h>

namespace graft {

// gtest allows no hyphen in a name.
inline std::string checkpoint_test_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

}  // namespace graft
